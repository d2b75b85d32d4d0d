"""The generated encyclopedia: consistent, reproducible, and answerable from its passages alone."""

from worldline.envs.searchqa.encyclopedia import generate
from worldline.envs.searchqa.expert import fact_in, parse

ENTRIES = generate(seed=3, entities=200)
BY_NAME = {thing.name: thing for thing in ENTRIES.things}


def test_a_seed_says_it_all() -> None:
    assert generate(3, 200) == ENTRIES
    assert generate(4, 200).questions != ENTRIES.questions


def test_every_question_parses_to_the_facts_it_was_made_from() -> None:
    passages = {passage.title: passage for passage in ENTRIES.passages}
    for question in ENTRIES.questions:
        request = parse(question.text)
        assert request is not None, question.text
        assert [request.thing, *(relation.name for relation in request.relations)] == question.id.split("/")
        name = request.thing
        for relation in request.relations:
            fact = fact_in(passages[name], relation)
            assert fact == BY_NAME[name].facts[relation.name]
            name = fact or ""
        assert (name,) == question.answers


def test_both_hops_are_there_and_splits_share_no_thing() -> None:
    hops = [question.id.count("/") for question in ENTRIES.questions]
    assert min(hops.count(1), hops.count(2)) > 0.4 * len(hops)
    starts = {split: {q.id.split("/")[0] for q in ENTRIES.questions if q.split == split} for split in ("train", "test")}
    assert starts["train"]
    assert starts["test"]
    assert not starts["train"] & starts["test"]
    assert len({question.id for question in ENTRIES.questions}) == len(ENTRIES.questions)


def test_the_world_is_coherent() -> None:
    for thing in ENTRIES.things:
        if "spouse" in thing.facts:
            assert BY_NAME[thing.facts["spouse"]].facts["spouse"] == thing.name
        if "capital" in thing.facts:
            assert BY_NAME[thing.facts["capital"]].facts["region"] == thing.name
        if "native" in thing.facts:
            assert BY_NAME[thing.facts["native"]].facts["birthplace"] == thing.name


def test_a_stranger_question_does_not_parse() -> None:
    assert parse("Why is the sky blue?") is None
    assert parse("Who founded the colour of the sky?") is None
