from collections.abc import Sequence

import pytest
from written_logs import GREEN, OVER, PAID, RED, TO_GREEN, Played, episode, lamps, shelves

from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.bag import Bag
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome_classes import StepOutcome
from worldline.kernel.replay import DRAWS, replay_error
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory


class Fixed:
    """Answers everything with the same reward, and remembers what it was given."""

    def __init__(self, log: StepTable, reward: float, last: int = 99) -> None:
        self.log, self._reward, self._last = log, reward, last
        self.requests: list[StepRequest] = []

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]:
        self.requests += requests
        return [
            KernelAnswer(
                "ok",
                StepOutcome(self._reward, one.state.step == self._last, False),
                None,
                {},
                one.state.describe(one.action),
                "exact",
            )
            for one in requests
        ]


def of_returns(returns: dict[str, list[float]]) -> StepTable:
    """Episodes of two steps with these returns, by policy."""
    return StepTable.of(
        [
            episode(f"{policy}{n}", "Go.", [Played("go", "ok", value), Played("go", "ok", 0.0)], policy=policy)
            for policy, values in returns.items()
            for n, value in enumerate(values)
        ]
    )


def test_the_error_is_that_of_the_policies_mean_returns() -> None:
    """Each episode is given 2 x 0.5: a is off by 1 - 3, b by 1 - 0.5; single episodes' errors cancel."""
    table = of_returns({"a": [2.0, 4.0], "b": [1.0, 0.0]})
    assert replay_error(Fixed(table, 0.5), range(4)) == pytest.approx(((4 + 0.25) / 2) ** 0.5)
    assert replay_error(Fixed(table, 0.5), [0]) == pytest.approx(1.0), "of this episode alone"


def test_an_end_ends_the_replay() -> None:
    table = of_returns({"a": [0.5]})
    model = Fixed(table, 0.5, last=0)
    assert replay_error(model, [0]) == 0.0
    assert len(model.requests) == DRAWS


def test_logged_actions_are_played_without_the_episodes_own_record() -> None:
    log = lamps(3, seed=0)
    model = Fixed(StepTable.of(log), 0.0)
    replay_error(model, [2])
    assert {one.own for one in model.requests} == {2}
    assert [one.action for one in model.requests] == [step.action for step in log[2].steps] * DRAWS
    assert len({one.draw for one in model.requests}) == len(model.requests), "every draw is another"


def test_where_nothing_is_paid_and_nothing_ends_there_is_no_error(shelf_model: KernelModel) -> None:
    assert replay_error(shelf_model, range(3)) == 0.0
    assert replay_error(Bag(shelf_model.log), range(3)) == 0.0
    assert all(e.episode_return == 0 for e in shelves(3, seed=1))


def test_the_same_seed_is_the_same_error(lamp_model: KernelModel) -> None:
    first, second, third = (replay_error(lamp_model, range(6), seed) for seed in (0, 0, 1))
    assert first == second != third


def open_loop(logged: Trajectory) -> float:
    """The exact expected return of an episode's actions in the two-state world, played open loop."""
    green, alive, earned = float(logged.steps[0].observation == GREEN), 1.0, 0.0
    for step in logged.steps:
        green = green * TO_GREEN[GREEN, step.action] + (1 - green) * TO_GREEN[RED, step.action]
        if step.action == "press":
            earned += alive * green * PAID
            alive *= 1 - OVER
    return earned


@pytest.mark.parametrize(("bag", "within"), [(False, 0.25), (True, 0.15)])
def test_the_error_is_that_of_the_true_world_played_open_loop(
    lamp_model: KernelModel, bag: bool, within: float
) -> None:
    """A press that was logged did not end its episode, a replayed one may: also the true world would earn less.

    The bag has the state and nothing else, which is all there is here; the kernel has to learn that.
    """
    numbers = range(100)
    logged = [lamp_model.log.episodes[number] for number in numbers]
    exact = sum(open_loop(e) - e.episode_return for e in logged) / len(logged)
    assert exact < -0.1
    model = Bag(lamp_model.log) if bag else lamp_model
    assert replay_error(model, numbers) == pytest.approx(-exact, abs=within)
