"""The contents of a house: rooms, kinds of receptacles, kinds of objects, and where each usually is.

The kinds and their names are ALFRED's. `homes` runs from the likeliest place to the least likely one and is also
what-can-contain-what: an object can be put exactly where it can lie at the start. The generator places objects by
it, the expert searches by it.
"""

from dataclasses import dataclass

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})

APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


@dataclass(frozen=True, slots=True)
class Room:
    """`most`: how many of each kind of receptacle it has at most; `always`: what a room of any size has."""

    most: dict[str, int]
    always: tuple[str, ...]


ROOMS: dict[str, Room] = {
    "kitchen": Room(
        {
            "cabinet": 3, "coffeemachine": 1, "countertop": 2, "diningtable": 1, "drawer": 2, "fridge": 1,
            "garbagecan": 1, "microwave": 1, "shelf": 2, "sinkbasin": 1, "stoveburner": 2,
        },
        ("fridge", "microwave", "sinkbasin"),
    ),
    "bathroom": Room(
        {
            "bathtubbasin": 1, "cabinet": 3, "countertop": 2, "drawer": 2, "garbagecan": 1, "shelf": 2,
            "sinkbasin": 2, "toilet": 1, "towelholder": 1,
        },
        ("sinkbasin", "toilet"),
    ),
    "bedroom": Room(
        {
            "armchair": 1, "bed": 1, "desk": 2, "drawer": 4, "dresser": 1, "garbagecan": 1, "safe": 1, "shelf": 3,
            "sidetable": 2,
        },
        ("bed", "desk"),
    ),
    "livingroom": Room(
        {
            "armchair": 2, "cabinet": 2, "coffeetable": 1, "diningtable": 1, "drawer": 3, "garbagecan": 1, "shelf": 2,
            "sidetable": 2, "sofa": 2, "tvstand": 1,
        },
        ("coffeetable", "sofa"),
    ),
}  # packed lines read better  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object."""

    rooms: frozenset[str]
    homes: tuple[str, ...]
    treatments: frozenset[str] = frozenset()
    """Which of clean, heat, cool can be done to it."""
    lamp: bool = False


def _kinds(rooms: str, names: str, homes: str, treatments: str = "", lamp: bool = False) -> dict[str, ObjectKind]:
    kind = ObjectKind(frozenset(rooms.split()), tuple(homes.split()), frozenset(treatments.split()), lamp)
    return dict.fromkeys(names.split(), kind)


_KITCHEN, _BATH, _BED, _LIVING = "kitchen", "bathroom", "bedroom", "livingroom"
_DRY = f"{_BED} {_LIVING}"

KINDS: dict[str, ObjectKind] = {
    **_kinds(
        _KITCHEN,
        "apple tomato potato egg",
        "fridge countertop diningtable sinkbasin microwave garbagecan",
        "clean heat cool",
    ),
    **_kinds(_KITCHEN, "bread", "countertop diningtable fridge microwave garbagecan", "heat cool"),
    **_kinds(_KITCHEN, "lettuce", "countertop fridge diningtable sinkbasin", "clean cool"),
    **_kinds(
        _KITCHEN, "plate cup", "cabinet countertop diningtable fridge shelf sinkbasin microwave", "clean heat cool"
    ),
    **_kinds(
        f"{_KITCHEN} {_BED}",
        "mug",
        "coffeemachine countertop cabinet desk shelf sinkbasin microwave fridge diningtable",
        "clean heat cool",
    ),
    **_kinds(
        f"{_KITCHEN} {_DRY}", "bowl", "cabinet countertop diningtable fridge shelf desk coffeetable", "clean cool"
    ),
    **_kinds(_KITCHEN, "pot pan", "stoveburner countertop cabinet sinkbasin fridge diningtable", "clean cool"),
    **_kinds(_KITCHEN, "kettle", "stoveburner countertop cabinet shelf diningtable", "clean"),
    **_kinds(
        _KITCHEN, "fork spoon knife butterknife spatula ladle", "drawer countertop diningtable sinkbasin", "clean"
    ),
    **_kinds(_KITCHEN, "dishsponge", "sinkbasin cabinet countertop drawer shelf garbagecan", "clean"),
    **_kinds(_KITCHEN, "saltshaker peppershaker", "countertop cabinet diningtable drawer shelf"),
    **_kinds(_KITCHEN, "winebottle", "countertop cabinet diningtable fridge garbagecan", "cool"),
    **_kinds(_KITCHEN, "glassbottle", "cabinet countertop fridge diningtable shelf garbagecan"),
    **_kinds(f"{_KITCHEN} {_BATH}", "soapbottle", "countertop cabinet toilet shelf sinkbasin garbagecan drawer"),
    **_kinds(_BATH, "soapbar", "bathtubbasin sinkbasin toilet countertop drawer cabinet garbagecan", "clean"),
    **_kinds(_BATH, "cloth", "bathtubbasin cabinet countertop drawer sinkbasin shelf", "clean"),
    **_kinds(_BATH, "spraybottle", "toilet countertop cabinet shelf garbagecan"),
    **_kinds(_BATH, "toiletpaper", "toilet cabinet countertop drawer shelf garbagecan"),
    **_kinds(_BATH, "towel handtowel", "towelholder countertop shelf bathtubbasin"),
    **_kinds(_BATH, "papertowelroll", "countertop shelf toilet diningtable garbagecan"),
    **_kinds(f"{_BATH} {_LIVING}", "candle", "countertop toilet shelf cabinet drawer coffeetable sidetable"),
    **_kinds(f"{_BATH} {_DRY}", "tissuebox", "shelf toilet sidetable drawer coffeetable countertop desk tvstand"),
    **_kinds(_DRY, "book", "bed desk shelf sidetable drawer coffeetable dresser cabinet diningtable sofa"),
    **_kinds(_LIVING, "newspaper", "coffeetable diningtable sofa armchair sidetable dresser shelf drawer garbagecan"),
    **_kinds(_DRY, "laptop", "desk bed sofa coffeetable diningtable armchair dresser tvstand"),
    **_kinds(_DRY, "pillow teddybear", "bed sofa armchair"),
    **_kinds(_DRY, "cellphone", "bed desk drawer sidetable sofa dresser coffeetable armchair diningtable shelf"),
    **_kinds(_BED, "alarmclock", "desk sidetable dresser shelf diningtable"),
    **_kinds(_BED, "cd", "desk drawer shelf dresser sidetable garbagecan cabinet safe"),
    **_kinds(_BED, "pen pencil", "desk drawer dresser sidetable shelf diningtable coffeetable garbagecan"),
    **_kinds(_DRY, "creditcard keychain", "drawer sidetable desk shelf dresser sofa coffeetable armchair safe tvstand"),
    **_kinds(_DRY, "watch", "drawer coffeetable sidetable dresser shelf safe tvstand desk diningtable"),
    **_kinds(
        _LIVING, "remotecontrol", "coffeetable sofa tvstand armchair sidetable drawer diningtable dresser cabinet"
    ),
    **_kinds(
        _DRY, "statue vase", "shelf coffeetable tvstand sidetable dresser cabinet diningtable desk countertop safe"
    ),
    **_kinds(_LIVING, "box", "sofa coffeetable diningtable armchair cabinet sidetable desk dresser"),
    **_kinds(_BED, "desklamp", "desk sidetable dresser shelf", lamp=True),
    **_kinds(_LIVING, "floorlamp", "sofa armchair tvstand sidetable", lamp=True),
}
