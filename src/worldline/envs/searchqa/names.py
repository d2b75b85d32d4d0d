"""Invented names for the things of the generated encyclopedia. Parts recur, so wrong answers are often half right."""

import itertools
import random

_WORDS = {
    "month": "January February March April May June July August September October November December",
    "first": """Ada Alma Anton Beatrix Bruno Cecil Clara Conrad Dora Edmund Elsa Emil Esther Felix Flora Gideon Greta
        Hanna Hector Ida Ingrid Ivo Jasper Judith Karl Laura Leo Linus Lydia Magnus Mara Martin Mina Nora Oscar Otto
        Paula Rosa Rufus Selma Silas Stella Theo Vera Viktor Walter Wanda Yara""",
    "last": """Abell Ashdown Barlow Brandt Calder Corvin Dahl Denham Ekholm Fairfax Falk Garrick Gray Hale Harrow Holm
        Ives Jansen Keller Kestrel Lark Lindqvist Lowe Marlow Moreau Nash Norling Orme Paxton Pryce Quill Rask Renner
        Rowan Sable Sorel Stroud Tarrant Thorne Ulrich Vance Varga Wells Winter Wray Yates""",
    "place": "Alder Brack Carn Dun Elm Fern Glen Harn Iver Kel Lang Mar Nor Oak Pen Ravn Stan Thorn Ull Vel Wal Yar",
    "place_end": "burgh by den ford ham holt mere mouth stead ton vik wick",
    "side": "Upper Lower East West North South Inner Outer",
    "land": "Arvania Belmark Corland Delmora Estria Galden Hestia Lornia Morvane Sardis Talvia Vestria",
    "river": "Al Bar Cor Dov Er Fal Gar Isk Lim Mor Nev Or Rib Sev Tam Ur Wen Yar",
    "river_end": "a awe en ell ene ick in one or oss",
    "peak": "Ash Black Cold Crow Dorn Eagle Frost Grim Hollow Iron Kestrel Lone Moon Raven Salt Stone Storm Wolf",
    "peak_end": "berg crag fell horn spire tor",
    "works": "Bakery Brewery Clockworks Foundry Glassworks Instruments Mills Motors Press Railways Shipyard Textiles",
    "school": "Academy College",
    "adjective": "Broken Crimson Distant Empty Golden Hidden Last Paper Quiet Silent Silver Sleeping Velvet Winter",
    "noun": "Bridge Compass Garden Harbour Heron Lantern Letter Mirror Orchard River Station Violin Voyage Window",
    "trade": "botanist cartographer cellist chemist dancer geologist journalist painter pilot poet sculptor surgeon",
}
PARTS = {part: tuple(words.split()) for part, words in _WORDS.items()}
_FORMS = {
    "person": ("{} {}", "first", "last"),
    "town": ("{}{}", "place", "place_end"),
    "region": ("{} {}", "side", "land"),
    "river": ("{}{}", "river", "river_end"),
    "mountain": ("Mount {}{}", "peak", "peak_end"),
    "company": ("{} {}", "last", "works"),
    "school": ("{} {}", "last", "school"),
    "film": ("The {} {}", "adjective", "noun"),
    "book": ("{} of the {}", "noun", "noun"),
}


def invent(draw: random.Random, counts: dict[str, int]) -> dict[str, list[str]]:
    """`counts[kind]` names of every kind, no name twice."""
    return {kind: _drawn(draw, kind, count) for kind, count in counts.items()}


def _drawn(draw: random.Random, kind: str, count: int) -> list[str]:
    """Without repetition; a number tells later rounds through a small pool apart."""
    form, *parts = _FORMS[kind]
    pool = [form.format(*words) for words in itertools.product(*(PARTS[part] for part in parts)) if len({*words}) == 2]
    invented: list[str] = []
    while len(invented) < count:
        lap = len(invented) // len(pool) + 1
        named = pool if lap == 1 else [f"{name} {lap}" for name in pool]
        invented += draw.sample(named, min(count - len(invented), len(pool)))
    return invented
