"""A small household log of three policies, written once; and what helps to tamper with it."""

from pathlib import Path

import pytest
from goal_seekers import TASKS, ZEALS, GoalSeeker, Write

from worldline import envs, store
from worldline.rollout import Rollout, plan
from worldline.types import Trajectory, World


@pytest.fixture(scope="session")
def world() -> World:
    return envs.load("household", None, {"level": "tiny", "families": ["pick"]})


@pytest.fixture(scope="session")
def episodes(world: World) -> list[Trajectory]:
    """Three policies, 240 episodes each, on eight tasks."""
    return [
        trajectory
        for zeal in ZEALS
        for trajectory in Rollout(world, GoalSeeker(zeal)).play(
            plan(world, "train", 240, seed=round(10 * zeal), run=f"z{zeal}", tasks=TASKS)
        )
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def into_folder(trajectories: list[Trajectory]) -> Path:
        folder = tmp_path / f"log{len(list(tmp_path.iterdir()))}"
        with store.StoreWriter(folder) as writer:
            for trajectory in trajectories:
                writer.append(trajectory)
        return folder

    return into_folder
