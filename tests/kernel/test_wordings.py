"""How an answer is worded may depend on what was read or tried many steps before."""

import numpy as np
import pytest
from written_logs import COLOURS, OPENS, SHUT, Played, episode, state_after, walk

from worldline.kernel.model import KernelModel
from worldline.kernel.wordings import FOLDS, LEAST, TaskBids, WordingExercise, WordingModel


def says(model: KernelModel, noted: str, taken: str, pace: int) -> dict[str, float]:
    """What the wording model alone says of the gate: the log-probability of each wording."""
    logged = walk("x", noted, taken, pace)
    considered = model.consider(state_after(model, logged, len(logged) - 1), "open the gate")
    chances = model.wording_model.log_chances(considered.wordings)
    return dict(zip(considered.candidates.texts, chances.tolist(), strict=True))


@pytest.mark.parametrize("noted", COLOURS)
def test_the_note_decides_the_answer_at_the_gate(gate_model: KernelModel, noted: str) -> None:
    """Four notes by four keys, read up to eight steps before. By chance one would get half of them right."""
    trust = []
    for taken in COLOURS:
        for pace in (1, 2, 3, 5):
            chances = says(gate_model, noted, taken, pace)
            right, wrong = (OPENS, SHUT) if noted == taken else (SHUT, OPENS)
            assert chances[right] > chances[wrong]
            trust.append(np.exp(chances[right]))
    assert np.mean(trust) > 0.85


def test_chances_are_a_distribution_over_wordings(gate_model: KernelModel) -> None:
    logged = walk("x", "jade", "jade", 2)
    many = gate_model.consider(state_after(gate_model, logged, len(logged) - 1), "open the gate").wordings
    of_texts = {int(at): chance for at, chance in zip(many.of, gate_model.wording_model.log_chances(many), strict=True)}
    assert len(of_texts) == len(many.texts)
    assert np.exp(list(of_texts.values())).sum() == pytest.approx(1, abs=len(many.texts) * np.exp(LEAST))
    assert min(of_texts.values()) >= LEAST


def test_a_fold_is_judged_by_the_model_that_has_not_seen_it(gate_model: KernelModel) -> None:
    """Steps of fold 0 say one thing, those of fold 1 another: each fold's model says what the other fold said."""
    logged = walk("x", "jade", "jade", 2)
    many = gate_model.consider(state_after(gate_model, logged, len(logged) - 1), "open the gate").wordings
    opens, shut = (many.texts.index(text.lower()) for text in (OPENS, SHUT))
    model = WordingModel()
    model.fit([WordingExercise(fold, many, opens if fold else shut) for fold in range(FOLDS) for _ in range(5)], seed=0)
    at = {text: int(np.flatnonzero(many.of == number)[0]) for text, number in ((OPENS, opens), (SHUT, shut))}
    for fold, right in ((0, OPENS), (1, SHUT)):
        chances = model.log_chances(many, fold)
        assert np.exp(chances[at[right]]) > 0.9
    both = model.log_chances(many)
    assert both[at[OPENS]] == pytest.approx(both[at[SHUT]], abs=0.05), "a new step is judged by both"


def test_bids_of_a_task_but_for_an_episodes_own() -> None:
    log = [
        episode("a", "Guess.", [Played("say 3", "Too low."), Played("say 8", "Too high.")], task="t0"),
        episode("b", "Guess.", [Played("say 5", "Yes, 5!")], task="t0"),
        episode("c", "Guess.", [Played("say 5", "Too low.")], task="t1"),
    ]
    bids = TaskBids(KernelModel(log).log)
    assert bids.of("t0", "say *", -1) == [(3.0, "too low."), (8.0, "too high."), (5.0, "yes, <0>!")]
    assert bids.of("t0", "say *", 0) == [(5.0, "yes, <0>!")]
    assert bids.of("t1", "say *", 2) == []
    assert bids.of("t2", "say *", -1) == []
