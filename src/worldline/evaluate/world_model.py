"""What a world model says of candidates: the estimators `adwm`, `adwm-paper`, `am-dr` and the rival world models.

A candidate is played in imagination from the start of every logged episode, with the same random draws as all others.
The interval is widened by what resampling tasks cannot see: the members' disagreement, and the error the model made on
the log's own policies, played in it as themselves and left out of its log (in replay where these cannot be played).
Imagined values are cached by content, like log-probs: an evaluation that was interrupted does not imagine them again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from worldline import files, store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.soft_tokens.connect import PolicyInterface, connect
from worldline.adwm.value import Imagined, discounted, enough, imagine, imagine_text
from worldline.adwm.world_model_env import IMAGINATION_PRESETS, ImaginationConfig
from worldline.evaluate.candidates import ELSEWHERE, Candidate
from worldline.evaluate.case import Case
from worldline.evaluate.imagined_cache import cached_imagination
from worldline.ope.agreement import spearman
from worldline.ope.certificate import Trial
from worldline.ope.estimation import Doubt, Estimator, EstimatorInput
from worldline.ope.estimators import model_based
from worldline.ope.intervals import Interval, error_by, interval, widened
from worldline.ope.log import Codes, Episodes, RefusalError, Steps
from worldline.ope.weights import exp
from worldline.policies import mix
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import InputError, Policy, Trajectory, derive_seed

CORRECTED, TEXT_MODEL = "am-dr", "wm-text"
MOST_UNSUPPORTED = 0.2
"""Share of imagined answers the log does not support above which an estimate is flagged."""


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
class WorldModelEstimators:
    """The estimators of one world model on one case. Each policy is played once by each estimator."""

    case: Case
    ensemble: Ensemble

    def __post_init__(self) -> None:
        self._imagined: dict[tuple[str, float, str], Imagined] = {}
        self._left_out: dict[tuple[str, ...], list[Trial]] = {}
        rivals = self.ensemble.members[0].rivals is not None
        self.manners = {n: m for n, m in IMAGINATION_PRESETS.items() if rivals or m.dynamics == "diffusion"}

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._played_in, CORRECTED)

    @property
    def _played_in(self) -> tuple[str, ...]:
        """The estimators that are worlds to play in."""
        return (*self.manners, TEXT_MODEL) if self.case.config.text_model else tuple(self.manners)

    @cached_property
    def _model(self) -> Model:
        folder = self.case.config.world_model
        paths = folder.rglob("*") if folder is not None else ()
        identity = files.digest(path for path in paths if path.is_file()) if folder is not None else None
        return Model(lambda: self.ensemble, identity)

    def table(self, candidate: Candidate, evidence: EstimatorInput) -> dict[str, Estimator]:
        """For one candidate."""

        def values(name: str) -> Callable[..., Episodes]:
            return lambda log, gamma: model_based(log, gamma, self.imagined(candidate, name).values)

        def doubt(name: str) -> Callable[[], Doubt]:
            return lambda: self._doubt(self.imagined(candidate, name), name)

        estimators = {name: Estimator(values(name), doubt=doubt(name)) for name in self._played_in}

        def corrected(log: object, gamma: float, weights: Steps) -> Episodes:
            return control_variate(evidence, weights, self.imagined(candidate, "adwm").values)

        return estimators | {CORRECTED: Estimator(corrected, ("clipped",), doubt("adwm"))}

    def imagined(self, candidate: Candidate, name: str) -> Imagined:
        """The candidate's imagined episodes, from every start of the log."""
        key = (candidate.name, candidate.epsilon, name)
        if key not in self._imagined:
            if candidate.load is None:
                raise RefusalError("must play the policy, and only its log-probs are given")
            player = Player(candidate.load, candidate.epsilon, self.case.identity(candidate.name, candidate.spec))
            self._imagined[key] = self._cached(self._model, player, self.case.trajectories, name, candidate.label)
        return self._imagined[key]

    def _cached(
        self, model: Model, player: Player, starts: Sequence[Trajectory], name: str, label: str, seed: int = 0
    ) -> Imagined:
        """Imagined, or read from the cache; there only the episodes of a candidate's `adwm` are kept, to be read."""
        config = self.case.config
        make = partial(self._imagine, model.load, player, starts, name, label, seed)
        folder = config.cache_folder
        if folder is None or player.identity is None or model.identity is None:
            return make()
        decisive = {
            "log": self._log_digest,
            "starts": [start.id for start in starts],
            "model": model.identity,
            "policy": player.identity,
            "epsilon": player.epsilon,
            "estimator": name,
            "text_model": self.case.identity(TEXT_MODEL, config.text_model) if name == TEXT_MODEL else None,
            "rollouts": self._rollouts(name),
            "at_once": config.imagined_at_once,
            "interface": config.interface,
            "gamma": config.gamma,
            "seed": [config.seed, seed],
        }
        return cached_imagination(make, decisive, folder, with_episodes=name == "adwm" and seed == 0)

    @cached_property
    def _log_digest(self) -> str:
        return files.digest(shard for folder in self.case.config.log for shard in store.shards(folder))

    def _rollouts(self, name: str) -> int | None:
        return self.case.config.rollouts if name == "adwm" else self.case.config.rival_rollouts

    def _imagine(
        self,
        load: Callable[[], Ensemble],
        player: Player,
        starts: Sequence[Trajectory],
        name: str,
        label: str,
        seed: int,
    ) -> Imagined:
        config, done, rollouts = self.case.config, 0, self._rollouts(name)
        tasks = len({start.task_id for start in starts})

        def watch(trajectory: Trajectory) -> None:
            nonlocal done
            done += 1
            self.case.watch(f"{name}: {label}", done, tasks * (rollouts or enough(tasks)))

        how: dict[str, Any] = {"starts": starts, "rollouts": rollouts, "watch": watch}
        ensemble, policy = load(), player.load()
        if name == TEXT_MODEL:
            drawn = derive_seed(config.seed, seed)
            return imagine_text(
                self._text_model, ensemble, mix(policy, player.epsilon), gamma=config.gamma, seed=drawn, **how
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
        note = f"policies read imagined observations as {channel.interface} ({channel.reason})"
        if channel.interface != "text" and note not in self.case.notes:
            self.case.notes.append(note)
        return channel

    @cached_property
    def _text_model(self) -> HFPolicy:
        policy = self.case.policy(TEXT_MODEL, self.case.config.text_model)
        if not isinstance(policy, HFPolicy):
            raise InputError(f"--text-model {self.case.config.text_model}: must be a language model, hf:PATH")
        return policy

    def imagined_episodes(self) -> Iterator[Trajectory]:
        """What the candidates did in `adwm`, so far, as episodes like real ones."""
        for candidate in self.case.candidates:
            imagined = self._imagined.get((candidate.name, candidate.epsilon, "adwm"))
            for t in imagined.trajectories if imagined is not None else ():
                named = {"id": f"{candidate.label}-{t.id}", "policy": candidate.name, "epsilon": candidate.epsilon}
                yield t.model_copy(update=named)

    def sensitivity(self, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]:
        """The candidates' values under other guidance settings, from a few starts."""
        return sensitivity(self, candidates, starts)

    def _doubt(self, imagined: Imagined, name: str) -> Doubt:
        members = len(self.ensemble.members)
        error = float(np.hypot(imagined.spread / np.sqrt(members), self.model_error(name)))
        share = imagined.support.unsupported / max(1, imagined.support.steps)
        caveat = f"{share:.0%} of the imagined steps are not supported by the log" if share > MOST_UNSUPPORTED else None
        return Doubt(error, caveat)

    def model_error(self, name: str) -> float:
        """Standard error on the log's own policies: as themselves, and, where that was tried, left out.

        In replay where none of them can be played.
        """
        trials = [*self.null([name]), *(trial for trials in self._left_out.values() for trial in trials)]
        errors = [trial.estimates[name].value - trial.truth for trial in trials if name in trial.estimates]
        return error_by(errors, self.case.config.confidence) if errors else self.ensemble.replay_error

    @cached_property
    def _loggers(self) -> dict[str, tuple[Player, Sequence[Trajectory]]]:
        """Each logger that can be played, and the episodes it logged."""
        loggers: dict[str, tuple[Player, Sequence[Trajectory]]] = {}
        log = self.case.log
        for code, label in enumerate(log.policy_names):
            name, spec, epsilon = self.case.logger_specs.get(label, ("", ELSEWHERE, 0.0))
            if not spec.startswith(ELSEWHERE):
                own = [self.case.trajectories[i] for i in np.flatnonzero(log.policies == code)]
                player = Player(partial(self.case.policy, name, spec), epsilon, self.case.identity(name, spec))
                loggers[label] = player, own
        return loggers

    def null(self, names: Sequence[str]) -> list[Trial]:
        """Each logger that can be played, from its own starts: its own logged value is the truth.

        The interval knows the error that the model made on the other loggers. Nobody is played in a logger's place who
        is not the one that logged.
        """
        names = [name for name in names if name in self._played_in]
        raw = {label: self._null(label, names) for label in self._loggers if not self.case.logger_mismatch(label)}
        trials, confidence = [], self.case.config.confidence
        for label, trial in raw.items():
            estimates = {}
            for name, estimate in trial.estimates.items():
                others = [t.estimates[name].value - t.truth for other, t in raw.items() if other != label]
                estimates[name] = widened(estimate, error_by(others, confidence), confidence)
            trials.append(replace(trial, estimates=estimates))
        return trials

    def _null(self, label: str, names: Sequence[str]) -> Trial:
        player, own = self._loggers[label]
        truth = np.array([discounted(t, self.case.config.gamma) for t in own])
        estimates = {}
        for name in names:
            key = (label, -1.0, name)
            if key not in self._imagined:
                self._imagined[key] = self._cached(self._model, player, own, name, f"null test of {label}", seed=1)
            estimates[name] = _around(self._imagined[key].values, truth, _codes(own), self.case.config.confidence)
        return Trial(label, (label,), float(truth.mean()), estimates, {})

    def leave_out(self, names: Sequence[str]) -> list[Trial]:
        """Each logger in a world model fitted on other loggers' episodes: the pools of `ope.certificate.leave_out`."""
        certified = self.case.config.refit_estimators or names
        names = tuple(name for name in names if name in self._played_in and name in certified)
        if names not in self._left_out:
            self._left_out[names] = list(self._leave_out(names))
        return self._left_out[names]

    def _leave_out(self, names: Sequence[str]) -> Iterator[Trial]:
        log, config = self.case.log, self.case.config
        present = np.unique(log.policies)
        for held, pool in ((present[::2], present[1::2]), (present[1::2], present[::2])):
            labels = [label for k in held if (label := log.policy_names[k]) in self._loggers]
            labels = [label for label in labels if not self.case.logger_mismatch(label)]
            if not labels or not len(pool):
                continue
            others = tuple(log.policy_names[k] for k in pool)
            episodes = [self.case.trajectories[i] for i in np.flatnonzero(np.isin(log.policies, pool))]
            model = self._refitted(episodes, "+".join(others), names)
            for label in labels:
                player, own = self._loggers[label]
                truth = float(np.mean([discounted(t, config.gamma) for t in own]))
                estimates = {}
                for name in names:
                    imagined = self._cached(model, player, episodes, name, f"certificate of {label}", seed=2)
                    estimates[name] = interval(
                        imagined.values, _codes(episodes), confidence=config.confidence, seed=config.seed
                    )
                yield Trial(label, others, truth, estimates, {})

    def _refitted(self, episodes: Sequence[Trajectory], pool: str, names: Sequence[str]) -> Model:
        """A world model of one member, as ours but from these episodes; fitted when it is first played in."""
        own = self.ensemble.members[0].model
        settings = FitSettings(
            preset=own.architecture.preset,
            latent=own.architecture.latent,
            members=1,
            rivals=any(name in self.manners and self.manners[name].dynamics != "diffusion" for name in names),
            replayed_episodes=0,
            seed=self.case.config.seed,
            device=str(own.device),
        )

        def watch(row: Mapping[str, object]) -> None:
            self.case.watch(f"refit on {pool}", int(str(row["epoch"])), int(str(row["of"])))

        @cache
        def fitted() -> Ensemble:
            return fit_ensemble(episodes, settings, watch).ensemble

        return Model(fitted, f"refitted on {pool} with {settings!r}")


def control_variate(evidence: EstimatorInput, weights: Steps, imagined: Episodes) -> Episodes:
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


def sensitivity(world: WorldModelEstimators, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]:
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
        {"w": w, "alpha": alpha, "values": setting, "spearman_with_plain": spearman(np.array(setting), plain)}
        for (w, alpha), setting in values.items()
        if able and len(setting) == len(able)
    ]
