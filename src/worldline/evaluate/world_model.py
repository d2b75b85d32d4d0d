"""What a world model says of candidates: `wm`, `wm-dr`, `wm-magic`, `adwm`, `am-dr` and the rival world models.

A candidate is played in imagination from the start of every logged episode, with the same random draws as all others.
The interval is widened by what resampling tasks cannot see: the members' disagreement, and the model's own error. That
is told by how much of what the world answers the model can say, and by its error on the log's own policies, played in
it as themselves and left out of its log (in replay where these cannot be played).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.fitting.weak_points import kernel_notes, latent_notes
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.kernel_env import BAG, KERNEL
from worldline.adwm.rivals.latent import RIVALS
from worldline.adwm.value import Imagined, discounted
from worldline.evaluate.candidates import ELSEWHERE, Candidate
from worldline.evaluate.case import Case
from worldline.evaluate.correction import corrected_trials, corrections
from worldline.evaluate.imagination import TEXT_MODEL, WITH_EPISODES, Imagination, Model, Player
from worldline.evaluate.imagined_shortfalls import lost_error, shortfalls
from worldline.evaluate.novelty import Novelty, newest
from worldline.evaluate.sensitivity import sensitivity
from worldline.kernel.model import FEATURES
from worldline.ope.certificate import Trial, standard_error
from worldline.ope.corrected_model import CorrectedModel, ModelCorrection, corrected_model, model_variance
from worldline.ope.diagnostics import bad_weights, diagnostics
from worldline.ope.estimation import Doubt, Estimator, EstimatorInput
from worldline.ope.estimators import control_variate, imagined_critic, model_based
from worldline.ope.intervals import Interval, around, error_by, interval, widened
from worldline.ope.log import Codes, Episodes, RaggedLog, RefusalError, Steps
from worldline.ope.world_model_error import world_model_error
from worldline.types import Trajectory, policy_label

CORRECTED = "am-dr"
KERNEL_CRITIC = "wm-dr"
"""Doubly robust with `wm` as the critic."""
CORRECTED_KERNEL = "wm-magic"
"""`wm`, corrected by the log as far as weights say anything."""
LEAST_SHARE = 0.5
"""Of the correction, from which on the logged episodes decide: what speaks against these is the caveat then."""
FOLDS = 2
"""Halves of the loggers; each is left out of the log that a world model is fitted on again."""
MOST_NEW, TIMES_AS_NEW = 0.3, 2.0
"""Share of imagined steps new to the log, and how many times that of the newest logger left out, above which it is."""


@dataclass(eq=False)
class WorldModelEstimators:
    """The estimators of one world model on one case. Each policy is played once by each estimator."""

    case: Case
    ensemble: Ensemble

    def __post_init__(self) -> None:
        self._imagination = Imagination(self.case, self.ensemble)
        self._imagined: dict[tuple[str, float, str], Imagined] = {}
        self._left_out: dict[tuple[str, ...], list[Trial]] = {}
        self._left_out_values: dict[str, Episodes] = {}
        """What `wm` said of a logger from the starts of its pool, without its episodes."""
        self._corrected: tuple[RaggedLog, dict[str, ModelCorrection]] | None = None
        members = self.ensemble.members
        rivals = bool(members) and members[0].rivals is not None
        able = {n: m for n, m in IMAGINATION_PRESETS.items() if rivals or m.dynamics not in RIVALS}
        self.presets = able if members else {}

    @property
    def names(self) -> tuple[str, ...]:
        corrected = (CORRECTED,) if self.presets else ()
        return (*self._played_in, *corrected, KERNEL_CRITIC, CORRECTED_KERNEL)

    @property
    def _played_in(self) -> tuple[str, ...]:
        """The estimators that are worlds to play in."""
        text = (TEXT_MODEL,) if self.case.config.text_model else ()
        return (KERNEL, BAG, *self.presets, *text)

    def weak_points(self, name: str) -> list[str]:
        """What `fit` said against the model that an estimator values policies by, from the figures it kept."""
        if name in (KERNEL, KERNEL_CRITIC, CORRECTED_KERNEL):
            return kernel_notes(self.ensemble.figures, self.ensemble.facts)
        return latent_notes(self.ensemble.members) if name in (*self.presets, CORRECTED) else []

    def table(self, candidate: Candidate, evidence: EstimatorInput) -> dict[str, Estimator]:
        """For one candidate."""

        def values(name: str) -> Callable[..., Episodes]:
            return lambda log, gamma: model_based(log, gamma, self.imagined(candidate, name).values)

        def doubt(name: str) -> Callable[[], Doubt]:
            return lambda: self._doubt(self.imagined(candidate, name), name)

        estimators = {name: Estimator(values(name), doubt=doubt(name)) for name in self._played_in}

        def corrected(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
            return control_variate(log, gamma, weights, self.imagined(candidate, "adwm").values)

        def critic(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
            return imagined_critic(log, gamma, weights, self.imagined(candidate, KERNEL).values)

        @cache
        def blend() -> CorrectedModel:
            return self._blend(candidate, evidence)

        def blended(log: object, gamma: float, weights: Steps) -> Episodes:
            return blend().values

        def blend_doubt() -> Doubt:
            if blend().share < LEAST_SHARE:
                return Doubt(blend().error, self._doubt(self.imagined(candidate, KERNEL), KERNEL).caveat)
            return Doubt(blend().error, "; ".join(bad_weights(diagnostics(evidence))) or None)

        combined = {
            CORRECTED: Estimator(corrected, ("clipped",), doubt("adwm")),
            KERNEL_CRITIC: Estimator(critic, ("weights",)),
            CORRECTED_KERNEL: Estimator(blended, ("weights",), blend_doubt, guarded=True),
        }
        return estimators | {name: estimator for name, estimator in combined.items() if name in self.names}

    def _blend(self, candidate: Candidate, evidence: EstimatorInput) -> CorrectedModel:
        """`wm-magic` of a candidate: `wm` alone where no logged episode is like the candidate's."""
        imagined = self.imagined(candidate, KERNEL)
        error = self._doubt(imagined, KERNEL).error
        if self._corrected is None or self._corrected[0] is not evidence.log:
            against = corrections(self.case, evidence, lambda one: self.imagined(one, KERNEL).values)
            self._corrected = evidence.log, against
        against = self._corrected[1]
        if candidate.label not in against:
            return CorrectedModel(imagined.values, 0.0, error)
        variance = model_variance([*against.values()], error**2)
        return corrected_model(imagined.values, against[candidate.label], variance, error)

    def imagined(self, candidate: Candidate, name: str) -> Imagined:
        """The candidate's imagined episodes, from every start of the log."""
        key = (candidate.name, candidate.epsilon, name)
        if key not in self._imagined:
            if candidate.load is None:
                raise RefusalError("must play the policy, and only its log-probs are given")
            player = Player(
                candidate.load, candidate.epsilon, self.case.policies.identity(candidate.name, candidate.spec)
            )
            self._imagined[key] = self._imagination.imagined(player, self.case.trajectories, name, candidate.label)
        return self._imagined[key]

    def close(self) -> None:
        """End the processes that share its answers."""
        self._imagination.workers.close()

    def imagined_episodes(self) -> Iterator[Trajectory]:
        """What the candidates did in `wm`, else in `adwm`, so far, as episodes like real ones."""
        for candidate in self.case.candidates:
            key = candidate.name, candidate.epsilon
            imagined = self._imagined.get((*key, KERNEL)) or self._imagined.get((*key, "adwm"))
            for t in imagined.trajectories if imagined is not None else ():
                named = {"id": f"{candidate.label}-{t.id}", "policy": candidate.name, "epsilon": candidate.epsilon}
                yield t.model_copy(update=named)

    def sensitivity(self, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]:
        """The candidates' values under other guidance settings, from a few starts."""
        return sensitivity(self._imagination, candidates, starts)

    def _doubt(self, imagined: Imagined, name: str) -> Doubt:
        members = max(1, len(self.ensemble.members))
        error = float(np.hypot(imagined.spread / np.sqrt(members), self.model_error(name)))
        error = float(np.hypot(error, lost_error(imagined, self.case.log.returns(self.case.config.gamma))))
        caveats = shortfalls(imagined)
        new = self._novelty.share(imagined.trajectories) if name in WITH_EPISODES else 0.0
        newest_logger = self._newest_logger if new > MOST_NEW else None
        if newest_logger is not None and new > TIMES_AS_NEW * newest_logger:
            caveats.append(
                f"{new:.0%} of the imagined steps are new to the log: nobody did the like after the same kinds of "
                f"actions, or so often ({newest_logger:.0%} of the newest logger's are); no policy as new as this had "
                "its error measured"
            )
        return Doubt(error, "; ".join(caveats) or None)

    @cached_property
    def _novelty(self) -> Novelty:
        return Novelty(self.ensemble.kernel.log.episodes, self._skeleton)

    @cached_property
    def _newest_logger(self) -> float | None:
        """Of the loggers, as far as the model has their episodes, in the folds of the certificate."""
        logs: dict[str, list[Trajectory]] = {}
        for episode in self.ensemble.kernel.log.episodes:
            logs.setdefault(policy_label(episode.policy, episode.epsilon), []).append(episode)
        return newest([logs[label] for label in sorted(logs)], FOLDS, self._skeleton)

    def _skeleton(self, action: str) -> str:
        return self.ensemble.kernel.log.language.phrasing.parse(action).skeleton

    def model_error(self, name: str) -> float:
        """The standard error of a new policy's value, by the log's own policies and by what the model can say.

        The former as themselves, and, where that was tried, left out; in replay where none of them can be played.
        """
        trials = [trial for trials in self._left_out.values() for trial in trials]
        own, left_out = (
            [trial.estimates[name].value - trial.truth for trial in part if name in trial.estimates]
            for part in (self.null([name]), trials)
        )
        if not own and not left_out:
            own = [self._replay_error(name)]
        returns = self.case.log.returns(self.case.config.gamma)
        possible = 1.0 if name == TEXT_MODEL else self.ensemble.kernel_possible  # a language model writes what it likes
        return world_model_error(returns, possible, own, left_out)

    def _replay_error(self, name: str) -> float:
        return self.ensemble.replay_error if name in self.presets else self.ensemble.kernel_replay_error

    @cached_property
    def loggers(self) -> dict[str, tuple[Player, Sequence[Trajectory]]]:
        """Each logger that can be played, and the episodes it logged."""
        loggers: dict[str, tuple[Player, Sequence[Trajectory]]] = {}
        log = self.case.log
        for code, label in enumerate(log.policy_names):
            name, spec, epsilon = self.case.logger_specs.get(label, ("", ELSEWHERE, 0.0))
            if not spec.startswith(ELSEWHERE):
                own = [self.case.trajectories[i] for i in np.flatnonzero(log.policies == code)]
                player = Player(
                    partial(self.case.policies.load, name, spec), epsilon, self.case.policies.identity(name, spec)
                )
                loggers[label] = player, own
        return loggers

    def null(self, names: Sequence[str]) -> list[Trial]:
        """Each logger that can be played, from its own starts: its own logged value is the truth.

        The interval knows the error that the model made on the other loggers. Nobody is played in a logger's place who
        is not the one that logged.
        """
        names = [name for name in names if name in self._played_in]
        raw = [self.null_trial(label, names) for label in self.loggers if not self.case.logger_mismatch(label)]
        return [self._doubted(trial, raw) for trial in raw]

    def _doubted(self, trial: Trial, measured: Sequence[Trial]) -> Trial:
        """The trial with intervals that know the model's errors on the other loggers in `measured`."""
        confidence, estimates = self.case.config.confidence, {}
        for name, estimate in trial.estimates.items():
            others = [t for t in measured if t.policy != trial.policy and name in t.estimates]
            errors = [t.estimates[name].value - t.truth for t in others]
            estimates[name] = widened(estimate, error_by(errors, confidence), confidence)
        return replace(trial, estimates=estimates)

    def null_trial(self, label: str, names: Sequence[str]) -> Trial:
        """One logger from its own starts; the interval knows the scatter of its episodes only."""
        player, own = self.loggers[label]
        truth = np.array([discounted(t, self.case.config.gamma) for t in own])
        estimates = {}
        for name in names:
            key = (label, -1.0, name)
            if key not in self._imagined:
                self._imagined[key] = self._imagination.imagined(player, own, name, f"null test of {label}", seed=1)
            estimates[name] = _around(self._imagined[key].values, truth, _codes(own), self.case.config.confidence)
        return Trial(label, (label,), float(truth.mean()), estimates, {})

    def leave_out(self, names: Sequence[str]) -> list[Trial]:
        """Each logger in a world model fitted on other loggers' episodes: the pools of `ope.certificate.leave_out`.

        The interval knows the errors that such models made on the other loggers.
        """
        key = self._certified(names)
        if key not in self._left_out:
            self._left_out[key] = [trial for fold in range(FOLDS) for trial in self.leave_out_fold(fold, key)]
        trials = [self._doubted(trial, self._left_out[key]) for trial in self._left_out[key]]
        if CORRECTED_KERNEL not in names or KERNEL not in key:
            return trials
        measured = [*self.null([KERNEL]), *trials]
        return corrected_trials(self.case, trials, measured, self._left_out_values, KERNEL, CORRECTED_KERNEL)

    def leave_out_fold(self, fold: int, names: Sequence[str]) -> list[Trial]:
        """The loggers of one half, in a world model that is fitted on the other half's episodes."""
        log, config, names = self.case.log, self.case.config, self._certified(names)
        present = np.unique(log.policies)
        held, pool = present[fold::FOLDS], present[1 - fold :: FOLDS]
        labels = [label for k in held if (label := log.policy_names[k]) in self.loggers]
        labels = [label for label in labels if not self.case.logger_mismatch(label)]
        if not labels or not len(pool):
            return []
        others = tuple(log.policy_names[k] for k in pool)
        episodes = [self.case.trajectories[i] for i in np.flatnonzero(np.isin(log.policies, pool))]
        model, trials = self._refitted(episodes, "+".join(others), names), []
        for label in labels:
            player, own = self.loggers[label]
            returns = np.array([discounted(t, config.gamma) for t in own])
            estimates = {}
            for name in names:
                imagined = self._imagination.imagined(
                    player, episodes, name, f"certificate of {label}", seed=2, model=model
                )
                if name == KERNEL:
                    self._left_out_values[label] = imagined.values
                estimates[name] = interval(
                    imagined.values, _codes(episodes), confidence=config.confidence, seed=config.seed
                )
            truth, error = float(returns.mean()), standard_error(returns, _codes(own))
            trials.append(Trial(label, others, truth, estimates, {}, error, len(own), config.confidence))
        return trials

    def _certified(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of `names` whose error the refits measure."""
        names, certified = _with_models(names), _with_models(self.case.config.refit_estimators or names)
        return tuple(name for name in names if name in self._played_in and name in certified)

    def _refitted(self, episodes: Sequence[Trajectory], pool: str, names: Sequence[str]) -> Model:
        """A world model of one member, as ours but from these episodes; fitted when it is first played in."""
        networks = [name for name in names if name in self.presets]
        kernel = self.ensemble.kernel
        settings = FitSettings(members=0, left_out=False, replayed_episodes=0, seed=self.case.config.seed)
        indexed = max(settings.kernel_steps, len(kernel.log))
        settings = settings.model_copy(update={"kernel_steps": indexed})
        if networks:
            own = self.ensemble.members[0].model
            rivals = any(self.presets[name].dynamics in RIVALS for name in networks)
            size = {"preset": own.architecture.preset, "latent": own.architecture.latent, "device": str(own.device)}
            settings = settings.model_copy(update={"members": 1, "rivals": rivals, **size})

        def watch(row: Mapping[str, object]) -> None:
            self.case.watch(f"refit on {pool}", int(str(row["epoch"])), int(str(row["of"])))

        @cache
        def fitted() -> Ensemble:
            return fit_ensemble(episodes, settings, watch, self.case.config.jobs or 1).ensemble

        return Model(fitted, f"refitted on {pool} with {settings!r} and features {FEATURES}")


def _with_models(names: Sequence[str]) -> list[str]:
    """The estimators, with the one that `wm-magic` corrects."""
    return list(dict.fromkeys([*names, *([KERNEL] if CORRECTED_KERNEL in names else [])]))


def _around(values: Episodes, truth: Episodes, tasks: Codes, confidence: float) -> Interval:
    """The mean of `values`, with an interval as wide as the scatter of its difference from what was logged."""
    difference = interval(values - truth, tasks, confidence=confidence)
    mean = float(values.mean())
    if difference.low is None or difference.high is None:
        return Interval(mean, None, None, len(values))
    return around(
        mean,
        mean + difference.low - difference.value,
        mean + difference.high - difference.value,
        len(values),
    )


def _codes(episodes: Sequence[Trajectory]) -> Codes:
    codes = {task: code for code, task in enumerate(dict.fromkeys(t.task_id for t in episodes))}
    return np.array([codes[t.task_id] for t in episodes], dtype=np.int64)
