"""Episodes that differ by a number, for tests of how a log is read and drawn from."""

from collections.abc import Sequence

from worldline.types import Step, Trajectory


def numbered(
    number: int, length: int = 3, *, task: str = "t0", policy: str = "p0", success: bool = False
) -> Trajectory:
    """An episode of so many steps whose texts name it; the last step is paid if it succeeded."""
    steps = tuple(
        Step(observation=f"room {number} {at}", action=f"go {at}", reward=float(success and at + 1 == length))
        for at in range(length)
    )
    return Trajectory(
        id=f"e{number}",
        env="maze",
        task_id=task,
        policy=policy,
        steps=steps,
        final_observation="end",
        terminated=True,
        success=success,
    )


def grid(tasks: int, policies: Sequence[int], length: int = 3) -> list[Trajectory]:
    """Of each task, `policies[k]` episodes of policy k, in mixed order."""
    cells = [(task, policy) for policy, times in enumerate(policies) for _ in range(times) for task in range(tasks)]
    return [numbered(n, length, task=f"t{task}", policy=f"p{policy}") for n, (task, policy) in enumerate(cells)]
