"""Errors on policies left out, where both models' errors are known to the digit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from written_logs import Played, episode

from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.bag import Bag
from worldline.kernel.left_out import Fit, LeftOutErrors, measuring_left_out
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory

LENGTHS = {"a": 1, "b": 2, "c": 3, "d": 4}


@dataclass(frozen=True)
class Flatterer:
    """Answers as the bag does, and pays so much more for every step."""

    log: StepTable
    extra: float

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]:
        answers = Bag(self.log).answer(requests)
        return [
            KernelAnswer(
                a.text,
                a.outcome._replace(reward=a.outcome.reward + self.extra, ended=False),
                a.listed,
                a.log_odds,
                a.description,
                a.kind,
            )
            for a in answers
        ]


def _log(policies: str) -> list[Trajectory]:
    """Every step pays 1, and no episode ends before its policy stops."""
    return [
        episode(f"{p}{n}", "on", [Played("go", "on", 1.0)] * LENGTHS[p], policy=p, ended=False)
        for p in policies
        for n in range(3)
    ]


def left_out_errors(episodes: Sequence[Trajectory], fit: Fit, seed: int) -> LeftOutErrors | None:
    with measuring_left_out(episodes, fit, seed) as errors:
        return errors(lambda done, of: None)


def flatterer(episodes: Sequence[Trajectory]) -> KernelModel:
    return cast(KernelModel, Flatterer(StepTable.of(episodes), 0.5))


def test_other_processes_measure_the_same(forked_workers: None) -> None:
    with measuring_left_out(_log("abcd"), flatterer, 0, jobs=2) as errors:
        watched: list[tuple[int, int]] = []
        assert errors(lambda done, of: watched.append((done, of))) == left_out_errors(_log("abcd"), flatterer, seed=0)
        assert watched == [(0, 3), (1, 3), (2, 3)]


def test_errors_are_those_of_each_policy_in_a_model_of_the_others() -> None:
    pools = []

    def fit(episodes: Sequence[Trajectory]) -> KernelModel:
        pools.append("".join(sorted({one.policy for one in episodes})))
        return cast(KernelModel, Flatterer(StepTable.of(episodes), 0.5))

    errors = left_out_errors(_log("abc"), fit, seed=0)
    assert errors is not None
    assert pools == ["bc", "ac", "ab"]
    assert errors.model == pytest.approx((sum((0.5 * n) ** 2 for n in (1, 2, 3)) / 3) ** 0.5)
    assert errors.bag == 0.0
    pools.clear()
    left_out_errors(_log("abcd"), fit, seed=0)
    assert pools == ["bc", "acd", "abd"], "three fits at most"


def test_two_policies_are_too_few() -> None:
    assert left_out_errors(_log("ab"), lambda episodes: pytest.fail("nothing is to be fitted"), seed=0) is None
