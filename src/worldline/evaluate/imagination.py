"""A policy played in a world model, for an evaluation: which episodes, how read, how often, and kept by content.

Imagined values are cached like log-probs: an evaluation that was interrupted does not imagine them again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from worldline import files, store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.kernel_env import BAG, KERNEL, KernelWorld, Support
from worldline.adwm.kernel_workers import KernelWorkers
from worldline.adwm.value import Imagined, enough, imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.evaluate.case import Case
from worldline.evaluate.imagined_cache import cached_imagination
from worldline.policies import mix
from worldline.types import InputError, Policy, Trajectory, derive_seed

if TYPE_CHECKING:  # what reads language models takes seconds to import: `wm` of scripted policies needs none of it
    from worldline.adwm.soft_tokens.connect import PolicyInterface
    from worldline.policies.language_model.hf import HFPolicy

TEXT_MODEL = "wm-text"
HOW = 3
"""Raised when one and the same world model imagines otherwise than before: values kept until then are not read."""
WITH_EPISODES = frozenset({"adwm", KERNEL})
"""The estimators whose imagined episodes are kept beside their values."""


@dataclass(frozen=True)
class Player:
    """A policy, loaded when it is its turn, and the share of chance mixed into it."""

    load: Callable[[], Policy]
    epsilon: float
    identity: str | None
    """Everything that decides what the policy does; None where nobody knows."""


@dataclass(frozen=True)
class Model:
    """A world model, loaded or fitted when it is needed, and what decides everything about it."""

    load: Callable[[], Ensemble]
    identity: str | None


@dataclass(eq=False)
class Imagination:
    """Plays policies in the world model of a case, or in one that was fitted again."""

    case: Case
    ensemble: Ensemble

    @cached_property
    def workers(self) -> KernelWorkers:
        """Processes that share the answers of `wm`."""
        return KernelWorkers(self.case.config.jobs or 1)

    @cached_property
    def _own(self) -> Model:
        """The evaluation's own world model."""
        folder = self.case.config.world_model
        paths = folder.rglob("*") if folder is not None else ()
        identity = files.digest(path for path in paths if path.is_file()) if folder is not None else None
        return Model(lambda: self.ensemble, identity)

    def imagined(
        self,
        player: Player,
        starts: Sequence[Trajectory],
        name: str,
        label: str,
        seed: int = 0,
        model: Model | None = None,
    ) -> Imagined:
        """Imagined, or read from the cache; there a candidate's episodes of `wm` and `adwm` alone are kept."""
        config, model = self.case.config, model or self._own
        make = partial(self._imagine, model.load, player, starts, name, label, seed)
        folder = config.cache_folder
        if folder is None or player.identity is None or model.identity is None:
            return make()
        decisive = {
            "how": HOW,
            "log": self._log_digest,
            "starts": [start.id for start in starts],
            "model": model.identity,
            "policy": player.identity,
            "epsilon": player.epsilon,
            "estimator": name,
            "text_model": self.case.policies.identity(TEXT_MODEL, config.text_model) if name == TEXT_MODEL else None,
            "rollouts": self._rollouts(name),
            "at_once": config.imagined_at_once,
            "interface": config.interface,
            "gamma": config.gamma,
            "seed": [config.seed, seed],
        }
        return cached_imagination(make, decisive, folder, with_episodes=name in WITH_EPISODES and seed == 0)

    @cached_property
    def _log_digest(self) -> str:
        return files.digest(shard for folder in self.case.config.log for shard in store.shards(folder))

    def _rollouts(self, name: str) -> int | None:
        return self.case.config.rollouts if name in ("adwm", KERNEL, BAG) else self.case.config.rival_rollouts

    def _imagine(
        self,
        load: Callable[[], Ensemble],
        player: Player,
        starts: Sequence[Trajectory],
        name: str,
        label: str,
        seed: int,
    ) -> Imagined:
        done, rollouts = 0, self._rollouts(name)
        tasks = len({start.task_id for start in starts})

        def watch(trajectory: Trajectory) -> None:
            nonlocal done
            done += 1
            self.case.watch(f"{name}: {label}", done, tasks * (rollouts or enough(tasks)))

        how: dict[str, Any] = {"rollouts": rollouts, "watch": watch}
        ensemble, policy = load(), player.load()
        if name in (KERNEL, BAG):
            kernel = KernelWorld(ensemble.kernel, ensemble.facts, bag=name == BAG, starts=starts)
            return self.play(kernel, policy, player.epsilon, seed, workers=self.workers, **how)
        if name == TEXT_MODEL:
            from worldline.adwm.rivals.language_model import TextWorld  # loads transformers, which takes seconds

            world = TextWorld(self._text_model, ensemble, starts=starts)
            played = self.play(world, policy, player.epsilon, seed, **how)
            return replace(played, support=Support())  # what a language model writes need not be in the log
        connection = self.connected(policy, ensemble)
        latent = ImaginedWorld(ensemble, IMAGINATION_PRESETS[name], connection.guide, starts)
        return self.play(latent, connection.policy, player.epsilon, seed, **how)

    def play(self, world: KernelWorld, policy: Policy, epsilon: float, seed: int = 0, **how: Any) -> Imagined:
        """A policy, mixed with chance, in a world that is imagined; `how` is for `imagine`."""
        config = self.case.config
        return imagine(
            world,
            mix(policy, epsilon),
            gamma=config.gamma,
            seed=derive_seed(config.seed, seed),
            batch_size=config.imagined_at_once,
            **how,
        )

    def connected(self, policy: Policy, ensemble: Ensemble) -> "PolicyInterface":
        """The policy as it perceives this imagined world."""
        from worldline.adwm.soft_tokens.connect import connect

        config = self.case.config
        folder = config.out / "adapters" if config.out is not None else None
        connection = connect(policy, ensemble, config.interface, folder=folder, seed=config.seed)
        note = f"policies read imagined observations as {connection.interface} ({connection.reason})"
        if connection.interface != "text" and note not in self.case.notes:
            self.case.notes.append(note)
        return connection

    @cached_property
    def _text_model(self) -> "HFPolicy":
        from worldline.policies.language_model.hf import HFPolicy

        policy = self.case.policies.load(TEXT_MODEL, self.case.config.text_model)
        if not isinstance(policy, HFPolicy):
            raise InputError(f"--text-model {self.case.config.text_model}: must be a language model, hf:PATH")
        return policy
