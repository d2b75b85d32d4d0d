"""One step of an episode as a question to a model of the log, and its answer."""

from dataclasses import dataclass

from worldline.kernel.candidates import KINDS, OTHER
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.outcome_classes import StepOutcome


@dataclass(frozen=True, slots=True)
class StepRequest:
    """An action done in an episode. Numbers in [0, 1) decide what is drawn; `turn` varies which rows are looked at."""

    state: EpisodeState
    action: str
    draw: float
    outcome_draw: float
    turn: int
    own: int = -1
    """The logged episode that is replayed, whose record is left out; -1: none."""


@dataclass(frozen=True, slots=True)
class KernelAnswer:
    """What the world says, and what follows."""

    text: str
    outcome: StepOutcome
    listed: tuple[str, ...] | None
    log_odds: dict[str, float]
    """Of every action that may be listed."""
    description: StepDescription
    kind: str
    """How the answer was made of a logged one; one of KINDS."""
    hazard: float = float("nan")
    """The probability that the episode ends here; below, the mean reward of the step. nan: not computed."""
    mean_reward: float = float("nan")

    @property
    def supported(self) -> bool:
        """Whether the answer was given to this action, or to one that is worded alike."""
        return self.kind != KINDS[OTHER]
