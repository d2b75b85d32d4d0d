"""A small encyclopedia of an invented country: things, facts, a passage per thing, questions about them.

Everything follows from a seed. One-hop questions ask for a fact of a named thing; two-hop questions name it only by
way of another ("Who founded the company that brought out ..."). The passages are shared; train and test questions
start from different things.
"""

import random
from dataclasses import dataclass

from worldline.envs.searchqa import names, wording
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.questions import Question
from worldline.envs.searchqa.wording import Relation
from worldline.types import derive_seed

SPLITS = ("train", "test")
_TEST_SHARE = 0.2
_SHARES = {
    "person": 33, "town": 14, "film": 13, "book": 13, "company": 9, "school": 6, "mountain": 5, "river": 5, "region": 2,
}  # packed lines read better  # fmt: skip
_YEARS = {"charter": (1180, 1680), "opening": (1700, 1930), "founding": (1820, 1960)}
_NUMBERS = {"population": (800, 95_000), "length": (40, 900), "height": (600, 4_200)}
_RARE = {"spouse": 0.6, "tributary": 0.6}
"""The share of subjects that have the relation, where not all do."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An entry: its facts by relation, objects as they are written."""

    kind: str
    name: str
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Encyclopedia:
    things: tuple[Thing, ...]
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


def generate(seed: int, entities: int) -> Encyclopedia:
    """The encyclopedia of `seed` with about `entities` entries."""
    counts = {kind: max(4, round(entities * share / 100)) for kind, share in _SHARES.items()}
    named = names.invent(random.Random(derive_seed(seed, "names")), counts)
    things = _with_facts(named, random.Random(derive_seed(seed, "facts")))
    return Encyclopedia(
        things=things,
        passages=tuple(_passage(thing, random.Random(derive_seed(seed, "text", thing.name))) for thing in things),
        questions=_questions(things, seed),
    )


def _with_facts(named: dict[str, list[str]], draw: random.Random) -> tuple[Thing, ...]:
    things = [Thing(kind, name, {}) for kind, group in named.items() for name in group]
    for thing in things:
        for relation in wording.RELATIONS:
            held = relation.subject == thing.kind and draw.random() < _RARE.get(relation.name, 1.0)
            if held and relation.name not in thing.facts:
                others = [name for name in named.get(relation.object, ()) if name != thing.name]
                thing.facts[relation.name] = draw.choice(others) if others else _literal(relation, draw)
    _make_consistent(things, draw)
    return tuple(things)


def _literal(relation: Relation, draw: random.Random) -> str:
    if relation.object == "date":
        return f"{draw.randint(1, 28)} {draw.choice(names.PARTS['month'])} {draw.randint(1850, 1975)}"
    if relation.object == "year":
        return str(draw.randint(*_YEARS.get(relation.name, (1900, 2010))))
    if relation.object == "number":
        return f"{draw.randint(*_NUMBERS[relation.name]):,}"
    return draw.choice(names.PARTS["trade"])


def _make_consistent(things: list[Thing], draw: random.Random) -> None:
    """Marriage goes both ways, a capital lies in its region, a native was born in the town."""
    by_name = {thing.name: thing for thing in things}
    people = [thing for thing in things if thing.kind == "person"]
    single = [person for person in people if person.facts.pop("spouse", None)]
    draw.shuffle(single)
    for one, other in zip(single[::2], single[1::2], strict=False):
        one.facts["spouse"], other.facts["spouse"] = other.name, one.name
    towns = [thing for thing in things if thing.kind == "town"]
    for region, town in zip((thing for thing in things if thing.kind == "region"), towns, strict=False):
        region.facts["capital"] = town.name
        by_name[town.name].facts["region"] = region.name
    for town in towns:
        natives = [person.name for person in people if person.facts["birthplace"] == town.name]
        town.facts.pop("native")
        if natives:
            town.facts["native"] = draw.choice(natives)


def _passage(thing: Thing, draw: random.Random) -> Passage:
    """The lead, then the other facts in any order, with the subject called by its surname or its kind."""
    later = thing.name.split()[-1] if thing.kind == "person" else wording.REFERENCE.get(thing.kind, f"the {thing.kind}")
    later = later.removesuffix(" {}")
    later = later[0].upper() + later[1:]
    lead = draw.choice(wording.LEADS[thing.kind]).format(s=thing.name, **thing.facts)
    rest = [
        draw.choice(relation.sentences).format(s=later, o=thing.facts[relation.name])
        for relation in wording.RELATIONS
        if relation.subject == thing.kind and relation.sentences and relation.name in thing.facts
    ]
    draw.shuffle(rest)
    return Passage(thing.name, " ".join([lead, *rest]))


def _questions(things: tuple[Thing, ...], seed: int) -> tuple[Question, ...]:
    """All one-hop questions and as many two-hop questions of every thing, each once in one of its phrasings."""
    by_name = {thing.name: thing for thing in things}
    questions: list[Question] = []
    for thing in things:
        draw = random.Random(derive_seed(seed, "questions", thing.name))
        split = SPLITS[draw.random() < _TEST_SHARE]
        named = wording.REFERENCE.get(thing.kind, "{}").format(thing.name)
        relations = _questioned_relations(thing)
        chains = [
            (first, second)
            for first in relations
            if first.phrases
            for second in _questioned_relations(by_name[thing.facts[first.name]])
        ]
        for relation in relations:
            text = draw.choice(relation.questions).format(s=named)
            questions.append(Question(f"{thing.name}/{relation.name}", text, (thing.facts[relation.name],), split))
        for first, second in draw.sample(chains, min(len(relations), len(chains))):
            answer = by_name[thing.facts[first.name]].facts[second.name]
            if answer != thing.name:
                text = draw.choice(second.questions).format(s=draw.choice(first.phrases).format(s=named))
                questions.append(Question(f"{thing.name}/{first.name}/{second.name}", text, (answer,), split))
    random.Random(derive_seed(seed, "order")).shuffle(questions)
    return tuple(questions)


def _questioned_relations(thing: Thing) -> list[Relation]:
    return [
        relation
        for relation in wording.RELATIONS
        if relation.subject == thing.kind and relation.questions and relation.name in thing.facts
    ]
