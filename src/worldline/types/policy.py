"""What a policy is: a batch of turns in, a batch of decisions out.

A policy keeps no state between calls: a `Turn` holds everything the agent has seen, so episodes can be resumed,
re-ordered, re-scored from a log, or played inside a world model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from worldline.types.randomness import derive_seed
from worldline.types.trajectory import Trajectory


def policy_label(name: str, epsilon: float) -> str:
    """What a policy is called with a share of uniform chance mixed in: 'expert@0.2'; without, its name."""
    return f"{name}@{epsilon:g}" if epsilon else name


@dataclass(frozen=True, slots=True)
class Exchange:
    """A past step, as the agent remembers it: what it saw, then what it did."""

    observation: str
    action: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent knows when it has to act."""

    family: str
    goal: str
    observation: str
    admissible: Sequence[str] | None
    history: Sequence[Exchange]
    seed: int = 0
    """All randomness of this decision comes from here."""
    task: str = ""
    """The id of the task, or empty, for experts that follow a solution. No prompt shows it."""

    @property
    def step(self) -> int:
        return len(self.history)


def turns(trajectory: Trajectory) -> Iterator[Turn]:
    """The turn of each step of a logged episode, as the agent saw it: any policy can act on it or score it."""
    history: list[Exchange] = []
    for index, step in enumerate(trajectory.steps):
        yield Turn(
            family=trajectory.family,
            goal=trajectory.goal,
            observation=step.observation,
            admissible=step.admissible,
            history=tuple(history),
            seed=derive_seed(trajectory.seed, index),
            task=trajectory.task_id,
        )
        history.append(Exchange(step.observation, step.action))


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's action and its statistics. The fields are those of `Step`, but for the last."""

    action: str
    response: str
    logprob: float | None = None
    token_ids: tuple[int, ...] | None = None
    token_logprobs: tuple[float, ...] | None = None
    entropy: float | None = None
    prompt_ids: tuple[int, ...] | None = None
    failure: str = ""
    """Why the policy could not decide here, though it can elsewhere: that costs the episode, not the run."""


@runtime_checkable
class Policy(Protocol):
    """Acts on many turns at once."""

    name: str

    def act(self, turns: Sequence[Turn]) -> list[Decision]: ...


@runtime_checkable
class EagerPolicy(Policy, Protocol):
    """A policy that decides some turns before others, so that environments step while it works on the rest."""

    def decide(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
        """What `act` gives, as it comes, by the places of the turns. Nothing else may be asked before the end."""

    def foresee(self, turns: Sequence[Turn]) -> None:
        """Get ready for turns that will be given next, while a `decide` is under way or not."""


@runtime_checkable
class ScoringPolicy(Policy, Protocol):
    """A policy that gives log pi(a|h): importance weights, FQE and exact mixing need it."""

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        """log pi(action | turn) for each of the given actions of each turn; -inf where it would never act so."""
