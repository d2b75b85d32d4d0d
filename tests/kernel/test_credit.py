"""Which candidates a logged answer is credited to, in cases that can be counted."""

from dataclasses import replace

import numpy as np
import pytest
from written_logs import lamps, state_after

from worldline.kernel.candidates import Candidates
from worldline.kernel.credit import agreement, closeness
from worldline.kernel.model import KernelModel
from worldline.kernel.wordings import Wordings


def test_where_no_candidate_has_the_number_those_of_its_wording_stand_in(lamp_model: KernelModel) -> None:
    state = state_after(lamp_model, lamps(1, seed=1)[0], 0)
    considered = lamp_model.consider(state, "press")
    texts, of = ("Pay 10.", "Pay 14.", "No.", "Pay 4."), np.array([0, 0, 1, 0])
    possible = Candidates(texts, np.arange(4), np.arange(4), np.zeros(4, np.int64), np.zeros(4, np.int64))
    worded = Wordings(("pay #.", "no."), np.zeros((2, 1), np.int64), of)
    among = replace(considered, candidates=possible, wordings=worded)
    assert closeness(lamp_model.numbers, among, "Pay 14.", state).tolist() == [0.0, 1.0, 0.0, 0.0], "the text itself"
    assert closeness(lamp_model.numbers, among, "Pay 11.", state).tolist() == pytest.approx([1.0, 2 / 4, 0.0, 2 / 8]), (
        "gaps 1, 3 and 7"
    )
    assert closeness(lamp_model.numbers, among, "Well.", state).tolist() == [0.0] * 4


def test_where_none_of_its_wording_has_as_many_numbers_all_of_it_stand_in(lamp_model: KernelModel) -> None:
    """The gap of each is infinite: none is nearer than another, and none is not a number."""
    state = state_after(lamp_model, lamps(1, seed=1)[0], 0)
    texts, of = ("Pay a.", "Pay 3 and 4.", "No."), np.array([0, 0, 1])
    possible = Candidates(texts, np.arange(3), np.arange(3), np.zeros(3, np.int64), np.zeros(3, np.int64))
    worded = Wordings(("pay #.", "no."), np.zeros((2, 1), np.int64), of)
    among = replace(lamp_model.consider(state, "press"), candidates=possible, wordings=worded)
    assert closeness(lamp_model.numbers, among, "Pay 11.", state).tolist() == [1.0, 1.0, 0.0]


def test_where_no_candidate_has_the_wording_the_nearest_that_begins_alike_stands_in(lamp_model: KernelModel) -> None:
    """What is seen once is no candidate; a gate that learns nothing from it would take "nothing" for the rule."""
    state = state_after(lamp_model, lamps(1, seed=1)[0], 0)
    texts = ("You look. There is nothing.", "You look. There is a jug and a pan.", "Gone. There is a jug and a cup.")
    possible = Candidates(texts, np.arange(3), np.arange(3), np.zeros(3, np.int64), np.zeros(3, np.int64))
    worded = Wordings(tuple(text.lower() for text in texts), np.zeros((3, 1), np.int64), np.arange(3))
    among = replace(lamp_model.consider(state, "press"), candidates=possible, wordings=worded)
    near = closeness(lamp_model.numbers, among, "You look. There is a jug and a cup.", state)
    assert near[1] == 1.0
    assert 0 < near[0] < 0.1, "it shares fewer words"
    assert near[2] == 0, "another thing happened"
    state.rare_goal_words = frozenset({"cup"})
    wanted = replace(among, candidates=replace(possible, texts=(*texts[:2], "You look. There is one cup.")))
    assert closeness(lamp_model.numbers, wanted, "You look. There is a jug and a cup.", state).tolist() == [0, 0, 1], (
        "it has what is sought"
    )


def test_a_source_with_another_outcome_has_a_tenth_of_the_credit(lamp_model: KernelModel) -> None:
    rows = lamp_model.log.rows
    row = replace(rows[0], reward=1.0, ended=True)
    alike = next(at for at, one in enumerate(rows) if one.ended and one.reward == 1.0)
    going_on = next(at for at, one in enumerate(rows) if not one.ended)
    sources = np.array([alike, going_on, -1])
    possible = Candidates(("a", "b", "c"), sources, np.arange(3), np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert agreement(lamp_model, possible, row, 0.03).tolist() == pytest.approx([1.0, 0.1, 0.1]), "no source, no end"
    near = agreement(lamp_model, possible, replace(row, reward=1.03), 0.03)
    assert near[0] == pytest.approx(0.1 + 0.9 * np.exp(-0.5)), "one spread away"
