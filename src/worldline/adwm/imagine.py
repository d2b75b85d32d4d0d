"""The world model as an environment: the rollout engine that plays in reality plays here too (ADWM algorithm 2).

An imagined episode starts where a logged one did. At each step a latent is sampled by diffusion, decoded to text the
log supports, read back, and judged by the heads: the episode ends with the probability the hazard head gives, where the
log allows for an end at all (`ways`), and never later than the log's horizon. All waiting episodes are advanced in one
batch (`begin` collects them). Every draw is a function of (episode seed, what was asked), so policies given the same
seed meet the same imagined world: the same cupboard holds the same cup, whoever opens it and whenever.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from worldline.adwm.admissibility import Situation
from worldline.adwm.chronicle import Chronicle
from worldline.adwm.diffusion import LogPolicy
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.log_world import SPLIT, LogWorld, WaitingEnvironment
from worldline.adwm.model import Outcome
from worldline.adwm.movement import move
from worldline.adwm.narrator import Answer
from worldline.adwm.networks import Row
from worldline.adwm.reading import Reader
from worldline.adwm.sight import Sight
from worldline.types import Info, Trajectory, derive_seed


@dataclass(frozen=True)
class Manner:
    """How to imagine. The default is the exact conditional model, decoded, read back and calibrated."""

    dynamics: Literal["diffusion", "wm-ar", "wm-joint", "wm-knn"] = "diffusion"
    steps: int = 10
    """Reverse steps of the diffusion; 50 with eta 1 is DDPM."""
    eta: float = 0.0
    w: float = 0.0
    alpha: float = 0.0
    clip: float = 1.0
    decode: Literal["learned", "nearest", "copy"] = "learned"
    """By the fitted decoder; to the nearest logged answer; or the neighbour's own step, reward and end included."""
    reread: bool = True
    """Read the decoded text back, or carry the sampled latent forward."""
    heads: Literal["calibrated", "paper"] = "calibrated"
    """A Bernoulli draw at the calibrated hazard, or the paper's threshold on the head as it was trained."""


MANNERS: dict[str, Manner] = {
    "adwm": Manner(),
    "adwm-paper": Manner(steps=50, eta=1.0, w=0.5, alpha=0.1, decode="nearest", reread=False, heads="paper"),
    "wm-ar": Manner("wm-ar", decode="nearest", reread=False),
    "wm-joint": Manner("wm-joint", decode="nearest", reread=False),
    "wm-knn": Manner("wm-knn", decode="copy", reread=False),
}


@dataclass
class Support:
    """How well the log supports what was imagined: where answers came from, and how far latents were from them."""

    near: Counter[str] = field(default_factory=Counter)
    distance: float = 0.0
    unsupported: int = 0

    def add(self, answer: Answer) -> None:
        self.near[answer.candidate.near if answer.candidate is not None else "none"] += 1
        self.unsupported += not answer.supported
        self.distance += answer.distance if np.isfinite(answer.distance) else 0.0

    @property
    def steps(self) -> int:
        return self.near.total()


Guide = Callable[[Sequence["ImaginedEnvironment"]], LogPolicy]
"""log pi_e of the next action from a batch of next latents: the continuation guidance of equation (9)."""


class ImaginedWorld(LogWorld):
    """Where imagined episodes come from: the tasks of the log it was fitted on, or those of `starts`."""

    def __init__(
        self,
        ensemble: Ensemble,
        manner: Manner = MANNERS["adwm"],
        guide: Guide | None = None,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        super().__init__("imagined", ensemble, starts)
        self.ensemble, self.manner, self.guide = ensemble, manner, guide
        self.support = Support()

    def make(self) -> "ImaginedEnvironment":
        return ImaginedEnvironment(self)

    def member_of(self, seed: int) -> int:
        """The member of the ensemble that imagines the episode with this seed."""
        return derive_seed(seed, "member") % len(self.ensemble.members)

    @torch.no_grad()
    def advance(self) -> None:
        """One step for every waiting episode, a batch for each member."""
        waiting, self.waiting = self.waiting, []
        for index, member in enumerate(self.ensemble.members):
            mine = [environment for environment in waiting if environment.member == index]
            if mine:
                move(member, mine, self)


class ImaginedEnvironment(WaitingEnvironment[ImaginedWorld]):
    """One imagined episode."""

    def __init__(self, world: ImaginedWorld) -> None:
        super().__init__(world)
        self.member = 0
        self.state: Row | None = None
        self.goal: Tensor | None = None
        self.situation: Situation | None = None
        self.chronicle: Chronicle
        self.reader: Reader
        self.latent: Tensor | None = None
        """The next latent that was sampled last."""
        self.seen: Tensor | None = None
        """The latent that the history went on with: the sampled one, or that of the text read back."""
        self.told: Outcome | None = None
        """What the heads said of the last step."""
        self.shown: list[str] = []
        """The observations as the agent got them."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, self.draw_integer("task", world.num_tasks(SPLIT)))
        self.member = world.member_of(seed or 0)
        start = world.start(task)
        observation = start.steps[0].observation
        self.chronicle = Chronicle(world.ensemble.lore.grammar, task, start.goal, observation)
        self.reader = Reader(world.ensemble.members[self.member].model, start.goal)
        self.state = self.situation = self.goal = None
        self.shown = [observation]
        return self._began(task, start)

    @property
    def family(self) -> str:
        return self._world.family

    def clone(self) -> Self:
        twin = type(self)(self._world)
        twin.__dict__ |= self.__dict__
        if not self.over:
            twin.chronicle, twin.reader, twin.shown = self.chronicle.copy(), self.reader.copy(), [*self.shown]
            twin.situation = None if self.situation is None else self.situation.of(twin.chronicle)
        return twin

    def uniform(self, *purpose: int | str) -> float:
        """A number in [0, 1) that depends on the episode's seed and on what it is for, and on nothing else."""
        return (derive_seed(self.seed, *purpose) >> 10) / 2**53

    def draw_integer(self, purpose: str, below: int) -> int:
        return int(self.uniform(purpose) * below)

    def noise(self, *purpose: int | str, shape: tuple[int, ...]) -> Tensor:
        drawn = np.random.Generator(np.random.PCG64(derive_seed(self.seed, *purpose))).standard_normal(shape)
        return torch.from_numpy(drawn.astype(np.float32))

    def settle(self, answer: Answer, reward: float, ended: bool, won: bool) -> None:
        """Record the world's answer to the pending action."""
        assert self.action is not None
        self.chronicle.advance(self.action, answer.text, answer.valid)
        cut = not ended and len(self.chronicle.actions) >= self._world.max_steps
        self.over = ended or cut
        self.allowed = () if self.over else self.allowed
        info: Info = {
            "won": won,
            "score": reward if ended else 0.0,
            "valid": answer.valid,
            "admissible": self._listed(),
        }
        text = answer.text if self.seen is None else Sight(answer.text, self.seen, self.member)
        self.shown.append(text)
        self.result = (text, reward, ended, cut, info)
