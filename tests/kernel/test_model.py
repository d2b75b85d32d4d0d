"""The whole model, against worlds whose chances are written down, and against what the log can support."""

import re
import string
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from written_logs import (
    COLOURS,
    GREEN,
    OPENS,
    SHUT,
    THINGS,
    TO_GREEN,
    Played,
    episode,
    lamps,
    shelves,
    state_after,
    text_chances,
    walk,
)

from worldline.envs.household.catalogue import KINDS as HOUSEHOLD_THINGS
from worldline.envs.household.catalogue import ROOMS
from worldline.envs.household.wording import GRAMMAR
from worldline.envs.small import keydoor
from worldline.kernel import candidates
from worldline.kernel.answers import StepRequest
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import KernelModel, draw

PACKAGE = Path(candidates.__file__).parent


def test_the_next_observation_has_the_chances_of_the_table(lamp_model: KernelModel) -> None:
    """In 20 new episodes. Of 200 logged steps each, a share of the log is off by .03 itself."""
    errors = []
    for (shown, action), chance in TO_GREEN.items():
        said_green = [
            text_chances(lamp_model, state_after(lamp_model, logged, at), action, turn=at)[GREEN]
            for logged in lamps(20, seed=7)
            for at, step in enumerate(logged.steps)
            if step.observation == shown
        ]
        errors.append(abs(np.mean(said_green) - chance))
    assert max(errors) < 0.15
    assert np.mean(errors) < 0.08


@pytest.mark.parametrize("noted", COLOURS)
def test_a_note_read_long_ago_decides(gate_model: KernelModel, noted: str) -> None:
    """The key of the note opens, the others do not: 16 of 16, all but sure of it. Success is paid 1 and ends."""
    for taken in COLOURS:
        logged = walk("x", noted, taken, 3)
        state = state_after(gate_model, logged, len(logged) - 1)
        right = noted == taken
        assert text_chances(gate_model, state, "open the gate")[OPENS if right else SHUT] > 0.95
        (answer,) = gate_model.answer([StepRequest(state, "open the gate", 0.5, 0.5, 0)])
        assert answer.outcome == (float(right), True, right)


def test_a_drawn_answer_has_its_probability(lamp_model: KernelModel) -> None:
    logged = lamps(1, seed=11)[0]
    state = state_after(lamp_model, logged, 2)
    chances = text_chances(lamp_model, state, "wait", turn=3)
    requests = [StepRequest(state, "wait", (at + 0.5) / 500, 0.5, 3) for at in range(500)]
    drawn_texts = Counter(answer.text for answer in lamp_model.answer(requests))
    for text, chance in chances.items():
        assert drawn_texts[text] / 500 == pytest.approx(chance, abs=0.1), "candidates of a text lie apart on the line"
    assert sum(chances.values()) == pytest.approx(1)


def test_the_inverse_of_the_distribution() -> None:
    chances = np.array([0.5, 0.0, 0.25, 0.25])
    assert [draw(chances, at) for at in (0.0, 0.49, 0.5, 0.74, 0.75, 0.9999)] == [0, 0, 2, 2, 3, 3]


def test_a_batch_is_answered_as_its_requests_alone(shelf_model: KernelModel) -> None:
    requests = [
        StepRequest(state_after(shelf_model, logged, at), logged.steps[at].action, at / 7, 0.3, at)
        for logged in shelves(3, seed=5)
        for at in range(7)
    ]
    together = shelf_model.answer(requests)
    backwards = shelf_model.answer(requests[::-1])[::-1]
    for request, one, other in zip(requests, together, backwards, strict=True):
        (alone,) = shelf_model.answer([request])
        for answer in (one, other):
            assert (answer.text, answer.outcome, answer.listed) == (alone.text, alone.outcome, alone.listed)


WORDS = ("take", "drop", "rest", *THINGS, "dragon", "12")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 9),
    st.integers(0, 7),
    st.one_of(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), st.text(string.printable, max_size=20)),
    st.floats(0, 1, exclude_max=True),
)
@example(0, 0, "TAKE:0:0", 0.0)
def test_whatever_is_done_the_answer_is_one_of_the_worlds_sentences(
    shelf_model: KernelModel, number: int, steps: int, action: str, draw: float
) -> None:
    """You take, drop or rest: of the request only names can be in it. What was really logged is always supported."""
    logged = shelves(10, seed=9)[number]
    state = state_after(shelf_model, logged, steps)
    (answer,) = shelf_model.answer([StepRequest(state, action, draw, 0.5, 1)])
    named = shelf_model.log.language.phrasing.parse(action).names
    names = "|".join(map(re.escape, {*THINGS, *named}))
    assert re.fullmatch(rf"You rest\.|You (take|drop) the ({names})\.", answer.text, re.IGNORECASE)
    assert answer.outcome == (0.0, False, False)
    if action in (state.listed or ()):
        assert answer.supported
    names_listed = {word for item in answer.listed or () for word in item.split()}
    words_named = (word for name in named for word in name.split())
    assert names_listed <= {*WORDS, *re.findall(r"\w+", action.lower()), *action.split(), *words_named}


def test_what_was_never_worded_is_not_supported(shelf_model: KernelModel) -> None:
    state = state_after(shelf_model, shelves(1, seed=9)[0], 0)
    (answer,) = shelf_model.answer([StepRequest(state, "sing to the moon", 0.5, 0.5, 0)])
    assert not answer.supported


def test_an_episode_is_never_answered_by_its_own_record() -> None:
    """Every answer of an episode has a word of its own: none of them comes back while it is replayed."""
    marks = [f"mark{chr(97 + number)}" for number in range(12)]
    log = [
        e.model_copy(
            update={
                "steps": tuple(s.model_copy(update={"observation": f"{s.observation} {mark}"}) for s in e.steps),
                "final_observation": f"{e.final_observation} {mark}",
            }
        )
        for e, mark in zip(lamps(12, seed=3), marks, strict=True)
    ]
    model = KernelModel(log)
    for number, logged in enumerate(log):
        first = logged.steps[0].observation.replace(marks[number], "elsewhere")
        plain = logged.model_copy(
            update={"steps": (logged.steps[0].model_copy(update={"observation": first}), *logged.steps[1:])}
        )
        state = state_after(model, plain, 0)
        texts = model.consider(state, logged.steps[0].action, own=number).candidates.texts
        assert texts
        assert not any(marks[number] in text for text in texts)
        assert any(marks[number] in text for text in model.consider(state, logged.steps[0].action).candidates.texts)


def worlds_words() -> set[str]:
    """Things, places, verbs and colours of the built-in worlds."""
    commands = " ".join(GRAMMAR.commands.values()).replace("{", " {")
    verbs = set(re.findall(r"(?<!\{)\b[a-z]+\b", commands)) - {"r", "o"}
    places = {name for room in ROOMS.values() for name in room.most}
    small = {word for text in (*keydoor.COLOURS, *keydoor.SIGHTS, keydoor.OPEN) for word in text.split()}
    return {*HOUSEHOLD_THINGS, *ROOMS, *places, *verbs, *small}


ALLOWED = {"a", "an", "the", "to", "from", "with", "on", "old", "some", "open", "map", "try", "use", "move"}
"""Ordinary English and Python."""


def test_a_step_as_new_is_answered_by_other_tasks_alone_where_these_have_the_like() -> None:
    log = [
        episode(f"{n}", "A hall.", [Played("open chest", f"Cup {n}."), Played("wait", "Dust.")], task=f"t{n % 2}")
        for n in range(8)
    ]
    model = KernelModel(log)
    state = EpisodeState(model.log.language, "t0", "", "A hall.", None)
    rows = model.consider(state, "open chest", own=0, as_new=True).candidates.rows
    like = [model.log.rows[row] for row in rows.tolist() if model.log.rows[row].action == "open chest"]
    assert like
    assert {model.log.episodes[row.episode].task_id for row in like} == {"t1"}
    alone = [one for one in log if one.task_id == "t0"]
    model = KernelModel(alone)
    rows = model.consider(state, "open chest", own=0, as_new=True).candidates.rows
    assert any(model.log.rows[row].action == "open chest" for row in rows.tolist()), "there is no like elsewhere"


def test_no_world_lends_the_package_a_word() -> None:
    """Code that knows a thing or a verb of a world would be a rule for that world. Docstrings may give examples."""
    words = worlds_words() - ALLOWED
    assert len(words) > 80
    lent = {}
    for path in sorted(PACKAGE.glob("*.py")):
        code = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text(encoding="utf-8"))
        there = {word for word in re.findall(r"[a-z]+", code.lower()) if word in words}
        if there:
            lent[path.name] = there
    assert not lent
