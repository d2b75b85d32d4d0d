"""What a world model says of candidates: the estimators `adwm`, `adwm-paper`, `am-dr` and the rival world models.

A candidate is played in imagination from the start of every logged episode, with the same luck as all others. The
interval is widened by what resampling tasks cannot see: the members' disagreement, and the error the model made on
the log's own policies, played in it as themselves and left out of its log (or, where these cannot be asked, in replay).
"""

import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from worldline import store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.soft_tokens.connect import PolicyInterface, connect
from worldline.adwm.value import Imagined, discounted, enough, imagine, imagine_text
from worldline.adwm.world_model_env import IMAGINATION_PRESETS, ImaginationConfig
from worldline.evaluate.candidates import ELSEWHERE, Candidate
from worldline.evaluate.case import Case
from worldline.evaluate.folder import IMAGINED
from worldline.ope.agreement import spearman
from worldline.ope.certificate import Trial
from worldline.ope.estimators import model_based
from worldline.ope.evidence import Doubt, Estimator, Evidence
from worldline.ope.intervals import Interval, error_by, interval, widened
from worldline.ope.log import Codes, Episodes, RefusalError, Steps
from worldline.ope.weights import exp
from worldline.policies import mix
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import InputError, Policy, Trajectory, derive_seed

CORRECTED, TOLD = "am-dr", "wm-text"
CERTIFICATE = "certificate.pkl"
MOST_UNSUPPORTED = 0.2
"""Share of imagined answers the log does not support above which an estimate is flagged."""


def written(path: Path, content: bytes) -> None:
    """Write a file that another process may look for: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


@dataclass(frozen=True)
class Player:
    """A policy, loaded when it is its turn, and the share of chance mixed into it."""

    load: Callable[[], Policy]
    epsilon: float


@dataclass(eq=False)
class WorldModelEstimators:
    """The estimators of one world model on one case. What was imagined is kept: each policy is played once."""

    case: Case
    ensemble: Ensemble
    keep: Path | None = None
    """Folder of what was imagined before with this very world model, by the names of policies."""

    def __post_init__(self) -> None:
        self._played: dict[tuple[str, float, str], Imagined] = {}
        self._left_out: dict[tuple[str, ...], list[Trial]] = {}
        rivals = self.ensemble.members[0].rivals is not None
        self.manners = {n: m for n, m in IMAGINATION_PRESETS.items() if rivals or m.dynamics == "diffusion"}

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._played_in, CORRECTED)

    @property
    def _played_in(self) -> tuple[str, ...]:
        """The estimators that are worlds to play in."""
        return (*self.manners, TOLD) if self.case.config.text_model else tuple(self.manners)

    def table(self, candidate: Candidate, evidence: Evidence) -> dict[str, Estimator]:
        """For one candidate."""

        def values(name: str) -> Callable[..., Episodes]:
            return lambda log, gamma: model_based(log, gamma, self.played(candidate, name).values)

        def doubt(name: str) -> Callable[[], Doubt]:
            return lambda: self._doubt(self.played(candidate, name), name)

        found = {name: Estimator(values(name), doubt=doubt(name)) for name in self._played_in}

        def corrected(log: object, gamma: float, weights: Steps) -> Episodes:
            return control_variate(evidence, weights, self.played(candidate, "adwm").values)

        return found | {CORRECTED: Estimator(corrected, ("clipped",), doubt("adwm"))}

    def played(self, candidate: Candidate, name: str) -> Imagined:
        """The candidate's imagined episodes, from every start of the log."""
        key = (candidate.name, candidate.epsilon, name)
        if key not in self._played:
            if candidate.load is None:
                raise RefusalError("needs the policy itself, to play it: this one is known by its log-probs only")
            player = Player(candidate.load, candidate.epsilon)
            self._played[key] = self._imagine(self.ensemble, player, self.case.trajectories, name, candidate.label)
            if name == "adwm" and self.case.config.out is not None and self._played[key].trajectories:
                self._keep(candidate, self._played[key].trajectories)
        return self._played[key]

    def answer(self, name: str, manner: str) -> None:
        """Imagine what an evaluation will ask of one policy, candidate or logger, in one manner."""
        for candidate in self.case.candidates:
            if candidate.name == name:
                self.played(candidate, manner)
        if name in self._loggers:
            self.null([manner], only=name)

    def _imagine(
        self,
        ensemble: Ensemble,
        player: Player,
        starts: Sequence[Trajectory],
        name: str,
        label: str,
        seed: int = 0,
    ) -> Imagined:
        """Imagined, or read from where it is kept."""
        kept = None if self.keep is None else self.keep / f"{re.sub(r'[^0-9a-z]+', '-', f'{name} {label}'.lower())}.pkl"
        if kept is not None and kept.is_file():
            found: Imagined = pickle.loads(kept.read_bytes())
            return found
        played = self._dreamed(ensemble, player, starts, name, label, seed)
        if kept is not None:
            written(kept, pickle.dumps(replace(played, trajectories=[])))
        return played

    def _dreamed(
        self, ensemble: Ensemble, player: Player, starts: Sequence[Trajectory], name: str, label: str, seed: int
    ) -> Imagined:
        config, done = self.case.config, 0
        tasks = len({start.task_id for start in starts})
        rollouts = config.rollouts if name == "adwm" else config.rival_rollouts

        def watch(trajectory: Trajectory) -> None:
            nonlocal done
            done += 1
            self.case.watch(f"{name}: {label}", done, tasks * (rollouts or enough(tasks)))

        how: dict[str, Any] = {"starts": starts, "rollouts": rollouts, "watch": watch}
        policy = player.load()
        if name == TOLD:
            drawn = derive_seed(config.seed, seed)
            return imagine_text(
                self._speaker, ensemble, mix(policy, player.epsilon), gamma=config.gamma, seed=drawn, **how
            )
        channel = self.connected(policy, ensemble)
        return self.play(ensemble, channel, player.epsilon, self.manners[name], seed, **how)

    def play(
        self,
        ensemble: Ensemble,
        channel: PolicyInterface,
        epsilon: float,
        manner: ImaginationConfig,
        seed: int = 0,
        **how: Any,
    ) -> Imagined:
        """A connected policy, mixed with chance, in one manner; `how` is for `imagine`."""
        config = self.case.config
        return imagine(
            ensemble,
            mix(channel.policy, epsilon),
            config=manner,
            guide=channel.guide,
            batch_size=config.imagined_at_once,
            seed=derive_seed(config.seed, seed),
            gamma=config.gamma,
            **how,
        )

    def connected(self, policy: Policy, ensemble: Ensemble) -> PolicyInterface:
        """The policy as it perceives this imagined world."""
        config = self.case.config
        folder = config.out / "adapters" if config.out is not None else None
        channel = connect(policy, ensemble, config.interface, folder=folder, seed=config.seed)
        said = f"imagined worlds are read as {channel.interface} ({channel.reason})"
        if channel.interface != "text" and said not in self.case.notes:
            self.case.notes.append(said)
        return channel

    @cached_property
    def _speaker(self) -> HFPolicy:
        found = self.case.policy(TOLD, self.case.config.text_model)
        if not isinstance(found, HFPolicy):
            raise InputError(f"--text-model {self.case.config.text_model}: must be a language model, hf:PATH")
        return found

    def _keep(self, candidate: Candidate, trajectories: Sequence[Trajectory]) -> None:
        """Imagined episodes go to a store like real ones, so that they can be read."""
        assert self.case.config.out is not None
        with store.StoreWriter(self.case.config.out / IMAGINED) as writer:
            for t in trajectories:
                named = {"id": f"{candidate.label}-{t.id}", "policy": candidate.name, "epsilon": candidate.epsilon}
                writer.append(t.model_copy(update=named))

    def _doubt(self, played: Imagined, name: str) -> Doubt:
        members = len(self.ensemble.members)
        error = float(np.hypot(played.spread / np.sqrt(members), self.model_error(name)))
        share = played.support.unsupported / max(1, played.support.steps)
        caveat = f"{share:.0%} of what was imagined is not supported by the log" if share > MOST_UNSUPPORTED else None
        return Doubt(error, caveat)

    def model_error(self, name: str) -> float:
        """Standard error on the log's own policies: as themselves, and, where that was tried, left out.

        In replay where none of them can be asked.
        """
        trials = [*self.null([name]), *(trial for tried in self._left_out.values() for trial in tried)]
        errors = [trial.estimates[name].value - trial.truth for trial in trials if name in trial.estimates]
        return error_by(errors, self.case.config.confidence) if errors else self.ensemble.replay_error

    @cached_property
    def _loggers(self) -> dict[str, tuple[Player, Sequence[Trajectory]]]:
        """Each logger that can be played, and the episodes it logged."""
        found: dict[str, tuple[Player, Sequence[Trajectory]]] = {}
        log = self.case.log
        for code, label in enumerate(log.policy_names):
            name, spec, epsilon = self.case.makers.get(label, ("", ELSEWHERE, 0.0))
            if not spec.startswith(ELSEWHERE):
                own = [self.case.trajectories[i] for i in np.flatnonzero(log.policies == code)]
                found[label] = Player(partial(self.case.policy, name, spec), epsilon), own
        return found

    def null(self, names: Sequence[str], only: str = "") -> list[Trial]:
        """Each logger that can be asked, played from its own starts: its own logged value is the truth.

        The interval knows the error that the model made on the other loggers. Nobody is played in a logger's place who
        is not the one that logged.
        """
        asked = [name for name in names if name in self._played_in]
        labels = [label for label in ([only] if only else self._loggers) if not self.case.impostor(label)]
        found = {label: self._null(label, asked) for label in labels}
        trials, confidence = [], self.case.config.confidence
        for label, trial in found.items():
            estimates = {}
            for name, raw in trial.estimates.items():
                others = [t.estimates[name].value - t.truth for other, t in found.items() if other != label]
                estimates[name] = widened(raw, error_by(others, confidence), confidence)
            trials.append(replace(trial, estimates=estimates))
        return trials

    def _null(self, label: str, names: Sequence[str]) -> Trial:
        player, own = self._loggers[label]
        truth = np.array([discounted(t, self.case.config.gamma) for t in own])
        found = {}
        for name in names:
            key = (label, -1.0, name)
            if key not in self._played:
                self._played[key] = self._imagine(self.ensemble, player, own, name, f"null test of {label}", seed=1)
            found[name] = _around(self._played[key].values, truth, _codes(own), self.case.config.confidence)
        return Trial(label, (label,), float(truth.mean()), found, {})

    def leave_out(self, names: Sequence[str]) -> list[Trial]:
        """Each logger in a world model fitted on other loggers' episodes: the pools of `ope.certificate.leave_out`."""
        names = tuple(name for name in names if name in self._played_in)
        if names not in self._left_out:
            kept = None if self.keep is None else self.keep / CERTIFICATE
            if kept is not None and kept.is_file():
                self._left_out[names] = pickle.loads(kept.read_bytes())
            else:
                self._left_out[names] = list(self._leave_out(names))
                if kept is not None:
                    written(kept, pickle.dumps(self._left_out[names]))
        return self._left_out[names]

    def _leave_out(self, names: Sequence[str]) -> Iterator[Trial]:
        log, config = self.case.log, self.case.config
        present = np.unique(log.policies)
        for held, pool in ((present[::2], present[1::2]), (present[1::2], present[::2])):
            asked = [label for k in held if (label := log.policy_names[k]) in self._loggers]
            asked = [label for label in asked if not self.case.impostor(label)]
            if not asked or not len(pool):
                continue
            episodes = [self.case.trajectories[i] for i in np.flatnonzero(np.isin(log.policies, pool))]
            ensemble = self._fitted(episodes, "+".join(log.policy_names[k] for k in pool))
            for label in asked:
                player, own = self._loggers[label]
                truth = float(np.mean([discounted(t, config.gamma) for t in own]))
                found = {}
                for name in (n for n in names if n in self._played_in):
                    played = self._imagine(ensemble, player, episodes, name, f"certificate of {label}", seed=2)
                    found[name] = interval(
                        played.values, _codes(episodes), confidence=config.confidence, seed=config.seed
                    )
                yield Trial(label, tuple(log.policy_names[k] for k in pool), truth, found, {})

    def _fitted(self, episodes: Sequence[Trajectory], pool: str) -> Ensemble:
        """A world model of one member, as ours but from these episodes."""
        model = self.ensemble.members[0].model

        def watch(row: Mapping[str, object]) -> None:
            self.case.watch(f"refit on {pool}", int(str(row["epoch"])), int(str(row["of"])))

        settings = FitSettings(
            preset=model.architecture.preset,
            latent=model.architecture.latent,
            members=1,
            rivals=self.ensemble.members[0].rivals is not None,
            replayed_episodes=0,
            seed=self.case.config.seed,
            device=str(model.device),
        )
        return fit_ensemble(episodes, settings, watch).ensemble


def control_variate(evidence: Evidence, weights: Steps, imagined: Episodes) -> Episodes:
    """AM-DR: V + rho (G - V) per episode, V imagined from its start, rho the clipped weight of the whole episode.

    Unbiased without clipping whatever V is; where nothing overlaps, rho is 0 and the world model is left.
    """
    rho: Episodes = exp(weights[evidence.log.ends])
    return imagined + rho * (evidence.log.returns(evidence.gamma) - imagined)


def _around(values: Episodes, truth: Episodes, tasks: Codes, confidence: float) -> Interval:
    """The mean of `values`, with an interval as wide as the scatter of its difference from what was logged."""
    difference = interval(values - truth, tasks, confidence=confidence)
    mean = float(values.mean())
    if difference.low is None or difference.high is None:
        return Interval(mean, None, None, len(values))
    return Interval(
        mean,
        mean + difference.low - difference.value,
        mean + difference.high - difference.value,
        len(values),
    )


def _codes(episodes: Sequence[Trajectory]) -> Codes:
    codes = {task: code for code, task in enumerate(dict.fromkeys(t.task_id for t in episodes))}
    return np.array([codes[t.task_id] for t in episodes], dtype=np.int64)


PLAIN = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0))
GUIDED = ((0.0, 0.1), (0.5, 0.1))
"""(w, alpha): classifier-free guidance alone, and with guidance towards what the policy is sure of."""


def sensitivity(world: WorldModelEstimators, candidates: Sequence[Candidate], starts: int) -> list[dict[str, object]]:
    """Per setting the values, once from every few starts, and their rank correlation with the unguided ones."""
    episodes = world.case.trajectories
    chosen = episodes[:: max(1, len(episodes) // starts)][:starts]
    values: dict[tuple[float, float], list[float]] = {setting: [] for setting in (*PLAIN, *GUIDED)}
    able = [candidate for candidate in candidates if candidate.load is not None]
    for done, candidate in enumerate(able, start=1):
        assert candidate.load is not None
        channel = world.connected(candidate.load(), world.ensemble)
        for w, alpha in (*PLAIN, *(GUIDED if channel.guide is not None else ())):
            manner = replace(world.manners["adwm"], w=w, alpha=alpha)
            played = world.play(world.ensemble, channel, candidate.epsilon, manner, starts=chosen, rollouts=1)
            values[w, alpha].append(float(played.values.mean()))
        world.case.watch("sensitivity to guidance", done, len(able))
    plain = np.array(values[PLAIN[0]])
    return [
        {"w": w, "alpha": alpha, "values": found, "spearman_with_plain": spearman(np.array(found), plain)}
        for (w, alpha), found in values.items()
        if able and len(found) == len(able)
    ]
