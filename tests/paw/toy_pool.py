"""Short episodes, and the pool of an update made of them."""

from worldline.paw.pool import Pool, to_pool
from worldline.paw.rewards import rule
from worldline.paw.rows import Observed, to_rows
from worldline.types import Step, Trajectory


def episode(
    letters: str,
    won: bool,
    invalid: int | None = None,
    task: str = "1",
    score: float | None = None,
    rewards: list[float] | None = None,
) -> Trajectory:
    steps = tuple(
        Step(
            observation=letter,
            action="go",
            reward=rewards[t] if rewards else 0.25,
            valid=t != invalid,
            prompt_ids=(ord(letter), 3),
            token_ids=(5,) * (t + 1),
            token_logprobs=(-0.5,) * (t + 1),
            entropy=float(t),
        )
        for t, letter in enumerate(letters)
    )
    return Trajectory(
        id=f"{task}-{letters}",
        env="toy",
        task_id=task,
        policy="p",
        steps=steps,
        final_observation="end",
        terminated=True,
        success=won,
        score=score,
    )


def pool(trajectories: list[Trajectory], groups: list[int], family: str = "household") -> Pool:
    rows = to_rows(trajectories, lambda text: Observed(tuple(map(ord, text)), (False,) * len(text)))
    return to_pool(rows, trajectories, groups, rule(family, max_return=4.0))
