"""The words of the generated houses: what the world answers, and the many ways a task can be put.

The world's sentences are ALFWorld's, so that a model trained here can read an official game. The phrases of the
tasks are also how the expert reads a task: each is a template and, turned round, a pattern. The first two of each
family are ALFWorld's own.
"""

import re
from dataclasses import dataclass

from worldline.envs.household.grammar import TextGrammar
from worldline.types import InputError

PREFIX = "Your task is to: "

FAMILIES = ("pick", "look", "clean", "heat", "cool", "pick_two")

PHRASES: dict[str, tuple[str, ...]] = {
    "pick": (
        "put a {o} in {r}.",
        "put some {o} on {r}.",
        "find a {o} and leave it in the {r}.",
        "move one {o} to the {r}.",
        "the {o} belongs in the {r}. Put it there.",
    ),
    "look": (
        "look at {o} under the {l}.",
        "examine the {o} with the {l}.",
        "inspect a {o} by the light of the {l}.",
        "hold the {o} and turn on the {l}.",
    ),
    "clean": (
        "clean some {o} and put it in {r}.",
        "put a clean {o} in {r}.",
        "wash a {o}, then leave it in the {r}.",
        "the {r} needs a freshly washed {o}.",
    ),
    "heat": (
        "heat some {o} and put it in {r}.",
        "put a hot {o} in {r}.",
        "warm up a {o}, then leave it in the {r}.",
        "the {r} needs a {o} that has been warmed up.",
    ),
    "cool": (
        "cool some {o} and put it in {r}.",
        "put a cool {o} in {r}.",
        "chill a {o}, then leave it in the {r}.",
        "the {r} needs a {o} that has been chilled.",
    ),
    "pick_two": (
        "put two {o} in {r}.",
        "find two {o} and put them in {r}.",
        "collect a pair of {o} in the {r}.",
        "two {o} belong in the {r}. Put both there.",
    ),
}


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The request of a task sentence: a family, a kind of thing and a kind of target."""

    family: str
    thing: str
    target: str
    """The kind of receptacle it has to end up in; for `look`, the kind of lamp."""


def phrase(request: TaskRequest, variant: int) -> str:
    """The task sentence for `request`, in one of its family's wordings."""
    phrases = PHRASES[request.family]
    return phrases[variant % len(phrases)].format(o=request.thing, r=request.target, l=request.target)


def _pattern(template: str) -> re.Pattern[str]:
    text = re.escape(template).replace(r"\{o\}", r"(?P<thing>\w+)")
    return re.compile(re.sub(r"\\\{[rl]\\\}", r"(?P<target>\\w+)", text))


_PATTERNS = [(family, _pattern(template)) for family in reversed(FAMILIES) for template in PHRASES[family]]


def read_request(sentence: str) -> TaskRequest:
    """The request of a task sentence; InputError if it is none of the phrases."""
    sentence = sentence.strip().removeprefix(PREFIX)
    for family, pattern in _PATTERNS:
        match = pattern.fullmatch(sentence)
        if match:
            return TaskRequest(family, match["thing"], match["target"])
    raise InputError(f"the household expert cannot read the task {sentence!r}: it knows the phrases of its own tasks")


_THINGS = "[{'a ' + o.name | inreceptacle(o, r)}]"

GRAMMAR = TextGrammar(
    commands={
        "look": "look",
        "inventory": "inventory",
        "gotolocation": "go to {r}",
        "openobject": "open {r}",
        "closeobject": "close {r}",
        "examinereceptacle": "examine {r}",
        "examineobject": "examine {o}",
        "pickupobject": "take {o} from {r}",
        "putobject": "move {o} to {r}",
        "cleanobject": "clean {o} with {r}",
        "heatobject": "heat {o} with {r}",
        "coolobject": "cool {o} with {r}",
        "toggleobject": "use {o}",
    },
    feedback={
        "look": "#surroundings#",
        "inventory": "#hand#",
        "gotolocation": "You arrive at {r.name}. #receptacle#",
        "openobject": "You open the {r.name}. #receptacle#",
        "closeobject": "You close the {r.name}.",
        "examinereceptacle": "#receptacle#",
        "examineobject": "This is a #state#{o.name}.",
        "pickupobject": "You pick up the {o.name} from the {r.name}.",
        "putobject": "You move the {o.name} to the {r.name}.",
        "cleanobject": "You clean the {o.name} using the {r.name}.",
        "heatobject": "You heat the {o.name} using the {r.name}.",
        "coolobject": "You cool the {o.name} using the {r.name}.",
        "toggleobject": "You turn on the {o.name}.",
    },
    rules={
        "intro": (("", "#room#\n\n" + PREFIX + "#task#"),),
        "room": (
            (
                "",
                "You are in the middle of a room. Looking quickly around you, you see "
                "[{'a ' + r.name | receptacleatlocation(r, p)}].",
            ),
        ),
        "surroundings": (
            (
                "atlocation(a, l) & receptacleatlocation(r, l)",
                "You are facing the [{r.name | receptacleatlocation(r, l)}]. Next to it, you see nothing.",
            ),
            ("", "#room#"),
        ),
        "receptacle": (
            ("openable(r) & opened(r)", f"The {{r.name}} is open. In it, you see {_THINGS}."),
            ("openable(r)", "The {r.name} is closed."),
            ("", f"On the {{r.name}}, you see {_THINGS}."),
        ),
        "hand": (
            ("holds(a, o)", "You are carrying: [{'a ' + o.name | holds(a, o)}]."),
            ("", "You are not carrying anything."),
        ),
        "state": (
            ("isclean(o) & ishot(o)", "hot and clean "),
            ("isclean(o) & iscool(o)", "cool and clean "),
            ("isclean(o)", "clean "),
            ("ishot(o)", "hot "),
            ("iscool(o)", "cold "),
            ("", "normal "),
        ),
    },
)
