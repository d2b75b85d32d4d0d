"""Processes that share the answers of `wm`: the episodes of one process, whatever was played before."""

import multiprocessing as mp
from collections.abc import Iterator
from typing import Any

import pytest
from tiny_house import mixed

from worldline.adwm import kernel_workers
from worldline.adwm.fit import Fitted
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.kernel_workers import KernelWorkers
from worldline.adwm.value import Imagined, imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.types import Trajectory, World


@pytest.fixture(scope="module")
def workers() -> Iterator[KernelWorkers]:
    workers = KernelWorkers(2)
    yield workers
    workers.close()


def by_wm(fitted: Fitted, starts: list[Trajectory], bag: bool = False) -> KernelWorld:
    return KernelWorld(fitted.ensemble.kernel, fitted.ensemble.facts, bag=bag, starts=starts)


def same(one: Imagined, other: Imagined) -> bool:
    return (
        one.trajectories == other.trajectories
        and one.values.tolist() == other.values.tolist()
        and one.support == other.support
    )


def test_the_episodes_are_those_of_one_process(
    fitted: Fitted, house: World, log: list[Trajectory], workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one world after the other, in the same processes: each has starts of its own."""
    monkeypatch.setattr(kernel_workers, "LEAST_SHARED", 0)
    begun: set[int | None] = set()
    for starts in (log, log[:5], log[5:9]):
        how: dict[str, Any] = {"policy": mixed(house, 0.4), "rollouts": 2, "seed": 3}
        alone = imagine(by_wm(fitted, starts), **how)
        shared = imagine(by_wm(fitted, starts), **how, workers=workers)
        assert alone.support.steps > 10
        assert same(alone, shared)
        begun |= {process.pid for process in mp.active_children()}
    assert len(begun) == 2
    for other in (by_wm(fitted, log[:2], bag=True), ImaginedWorld(fitted.ensemble, starts=log[:2])):
        assert workers.shared(other, 2) is None, "they answer as wm"
        assert imagine(other, **how, workers=workers).support.steps > 0


def test_where_little_is_imagined_no_process_is_begun(fitted: Fitted, house: World, log: list[Trajectory]) -> None:
    idle = KernelWorkers(2)
    before = mp.active_children()
    assert imagine(by_wm(fitted, log[:2]), mixed(house, 0.4), rollouts=1, workers=idle).lost == 0
    assert mp.active_children() == before


def test_processes_end_when_they_are_closed(
    fitted: Fitted, house: World, log: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "LEAST_SHARED", 0)
    before = {process.pid for process in mp.active_children()}
    own = KernelWorkers(2)
    imagine(by_wm(fitted, log[:2]), mixed(house, 0.4), rollouts=1, workers=own)
    assert len({process.pid for process in mp.active_children()} - before) == 2
    own.close()
    assert {process.pid for process in mp.active_children()} <= before
