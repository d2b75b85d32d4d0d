"""The bag is the empirical distribution of the log: no more, no less."""

from collections import Counter

import pytest
from written_logs import GREEN, RED, Played, episode, lamps, state_after

from worldline.kernel.answers import StepRequest
from worldline.kernel.bag import Bag
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome_classes import StepOutcome
from worldline.kernel.step_table import StepTable


@pytest.mark.parametrize("own", [-1, 3])
@pytest.mark.parametrize("shown", [RED, GREEN])
@pytest.mark.parametrize("action", ["wait", "press"])
def test_it_draws_every_logged_answer_as_often_as_it_was_given(
    lamp_model: KernelModel, shown: str, action: str, own: int
) -> None:
    log = lamp_model.log.episodes
    logged = Counter(
        (answer, step.reward, at + 1 == len(e) and e.terminated)
        for number, e in enumerate(log)
        for at, (step, answer) in enumerate(zip(e.steps, e.next_observations, strict=True))
        if (step.observation, step.action) == (shown, action) and number != own
    )
    start = next(e for e in log if e.steps[0].observation == shown)
    state, times = state_after(lamp_model, start, 0), logged.total()
    bag = Bag(lamp_model.log)
    answers = bag.answer([StepRequest(state, action, (at + 0.5) / times, 0.5, 0, own) for at in range(times)])
    assert Counter((a.text, a.outcome.reward, a.outcome.ended) for a in answers) == logged
    assert all(a.supported and a.kind == "exact" for a in answers)


def test_it_falls_back_to_the_action_then_to_its_wording_then_to_anything() -> None:
    log = [
        episode(f"e{n}", "A field.", [Played("go north", "A wood."), Played("go south", "A field.")], task=f"t{n}")
        for n in range(2)
    ]
    log.append(episode("x", "A hill.", [Played("dig", "A hole.", 5.0)], task="t2", success=True))
    table = StepTable.of(log)
    bag = Bag(table)
    model = KernelModel(log)
    state = state_after(model, log[2], 0)

    def answer(action: str, draw: float, own: int = -1) -> tuple[str, str, StepOutcome]:
        (one,) = bag.answer([StepRequest(state, action, draw, 0.5, 0, own)])
        return one.text, one.kind, one.outcome

    nothing = StepOutcome(0.0, False, False)
    assert answer("go north", 0.9) == ("A wood.", "exact", nothing), "elsewhere"
    assert answer("dig", 0.9) == ("A hole.", "exact", StepOutcome(5.0, True, True))
    assert {answer("dig", at / 10, own=2)[0] for at in range(10)} <= {"A wood.", "A field."}, "not by its own record"
    assert answer("sing", 0.0)[1] == "other"


def test_lists_are_those_of_the_drawn_step() -> None:
    log = lamps(4, seed=0)
    model = KernelModel(log)
    state = state_after(model, log[0], 0)
    for at in range(20):
        (answer,) = Bag(model.log).answer([StepRequest(state, "wait", at / 20, 0.5, 0)])
        assert answer.listed == ("press", "wait")
