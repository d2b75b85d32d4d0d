"""A fitted world model as an environment to train in: `imagined:FOLDER`, nothing real is touched.

Training looks for whatever pays, errors of the model too. So an episode is halted where an answer is not supported by
the log, and its return is then the lowest that was logged: the pessimistic MDP of MOReL (Kidambi et al. 2020), with the
log's support in the place of an ensemble's disagreement. What the model gets wrong within the support is not bounded.
"""

from pathlib import Path

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.kernel_env import KernelEnvironment, KernelWorld
from worldline.config import Config, option
from worldline.kernel.answers import KernelAnswer


class ImaginedConfig(Config):
    """An imagined environment."""

    halt: bool = option(True, help="end an episode, at the lowest return of the log, where the log supports no answer")


def load_imagined(folder: str, config: ImaginedConfig) -> KernelWorld:
    """The world of the world model in `folder`; its networks are not played in."""
    ensemble = Ensemble.load(Path(folder).expanduser())
    made = PessimisticWorld if config.halt else KernelWorld
    return made(ensemble.kernel, ensemble.facts)


class PessimisticWorld(KernelWorld):
    """The world of a kernel model, as far as its log supports what it answers."""

    def make(self) -> "PessimisticEnvironment":
        return PessimisticEnvironment(self)


class PessimisticEnvironment(KernelEnvironment[KernelWorld]):
    """One imagined episode; it is over where the log knows no more."""

    def receive(self, answer: KernelAnswer) -> None:
        before = self.collected
        super().receive(answer)
        assert self.result is not None
        observation, reward, ended, cut, info = self.result
        halted = answer.description.action in self.unsupported
        if halted:
            reward, ended, cut = self._world.min_return - before, True, False
            self.over, self.allowed = True, ()
            won = self._world.logged_success.of_ended(success=False)  # no win, even where every logged one is
            info |= {"won": won, "admissible": self._listed()}
            info |= {"score": 0.0} if "score" in info else {}
        self.collected = before + reward
        info["halted"] = halted
        self.result = (observation, reward, ended, cut, info)
