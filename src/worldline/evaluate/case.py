"""A case: the log in arrays and words, the candidates, and those loggers whose policies are given."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from worldline import envs, store
from worldline.collect_notes import other_options
from worldline.evaluate.candidates import (
    ELSEWHERE,
    Candidate,
    Scores,
    Watch,
    cached,
    named,
    target_log,
)
from worldline.evaluate.case_policies import CasePolicies
from worldline.evaluate.judgement import LogEvidence
from worldline.evaluate.log_columns import LogColumns, read_columns
from worldline.evaluate.logged import LOGGED, called, logged_candidates, resolved
from worldline.evaluate.loggers import (
    CLONE,
    CLOSE_BY_EPISODE,
    CLOSE_ENOUGH,
    NO_LOGPROBS,
    NOT_GIVEN,
    NOT_THE_LOGGER,
    SHOWN_DISTANCE,
    TOO_FAR,
    UNLISTED,
    cloned_logger,
    distance_to_logger,
    missing_logprobs,
)
from worldline.evaluate.logprob_file import from_file
from worldline.evaluate.settings import EvaluateConfig
from worldline.ope.alike import returns_alike
from worldline.ope.estimation import EstimatorInput
from worldline.ope.features import featuriser
from worldline.ope.intervals import FEW_UNITS
from worldline.ope.log import RaggedLog, Steps, TargetLog
from worldline.ope.scratch import Scratch
from worldline.ope.text import TextLog, text_log
from worldline.policies import PolicySource
from worldline.types import InputError, Policy, Trajectory

MOST_LEFT_OUT = 0.5
"""Share of episodes without log-probs above which they stay, and estimators that need log-probs refuse."""
CANDIDATE, LOGGER = "", "<logger>"
"""Specifications of policies that are given as objects: a candidate and a logger may share a name."""


@dataclass(eq=False)
class Case:
    """What an evaluation works on."""

    config: EvaluateConfig
    given: Mapping[str, Policy | PolicySource]
    given_loggers: Mapping[str, Policy | PolicySource]
    watch: Watch
    notes: list[str] = field(default_factory=list)
    """Notes for the user, in the order they arose."""

    def __post_init__(self) -> None:
        self._scores: dict[tuple[str, str], Scores | None] = {}
        self._logged: dict[str, TargetLog | None] = {}
        self._unused: dict[str, str] = {}
        self._contradictions: dict[str, str] = {}
        objects = {(name, CANDIDATE): policy for name, policy in self.given.items()}
        objects |= {(name, LOGGER): policy for name, policy in self.given_loggers.items()}
        self.policies = CasePolicies(
            self.config, objects, lambda: self._whole.worlds, lambda: called(self._whole.loggers)
        )
        self.log  # noqa: B018 - a bad log is refused before anything is computed

    @cached_property
    def columns(self) -> LogColumns:
        """The log without its text. Episodes that lack log-probs are left out where there are few of them."""
        whole = self._whole
        labels = whole.log.policy_names
        kept = self._needs_no_logprobs
        given = np.array([label in self.logger_specs or kept for label in labels], dtype=np.bool_)
        missing = whole.log.each_episode(lambda part, _: part.total(np.isnan(part.behaviour).astype(np.float64)))
        lacking = (missing > 0) & ~given[whole.log.policies]
        share = float(lacking.mean())
        if not 0 < share <= MOST_LEFT_OUT:
            return whole
        returns = whole.log.returns(self.config.gamma)
        by_logger = ", ".join(
            f"{int((lacking & (whole.log.policies == code)).sum()):,} of {label}"
            for code, label in enumerate(labels)
            if (lacking & (whole.log.policies == code)).any()
        )
        times = [part.time[np.isnan(part.behaviour)] + 1 for part, _, _ in whole.log.blocks()]
        first, last = (int(extreme(np.concatenate(times))) for extreme in (np.min, np.max))
        self.notes.append(
            f"column 'logprob' is empty at steps {first} to {last} of {int(lacking.sum()):,} episodes ({by_logger}): "
            f"these are left out, {share:.1%} of the log; with them the mean return of the log would differ by "
            f"{share * float(np.ptp(returns)):.2g} at most, the value of a policy that acts as they do by more"
        )
        return whole.take(np.flatnonzero(~lacking))

    @property
    def _needs_no_logprobs(self) -> bool:
        """Whether all candidates are in the log: the mean of their own episodes takes no weights."""
        specs = self._policy_specs.values()
        return bool(specs) and not self.given and all(spec.startswith(LOGGED) for spec in specs)

    @cached_property
    def _whole(self) -> LogColumns:
        out = self.config.out
        return read_columns(self.config.log, Scratch(out if out is not None and out.is_dir() else None))

    @cached_property
    def trajectories(self) -> list[Trajectory]:
        """The episodes with their text."""
        kept = self.columns.kept
        episodes = list(store.read(self.config.log))
        return episodes if len(kept) == len(episodes) else [episodes[i] for i in kept]

    @cached_property
    def log(self) -> RaggedLog:
        worlds = self._whole.worlds
        if len(worlds) > 1:
            raise InputError(f"the log holds episodes of {', '.join(worlds)}: evaluate one environment at a time")
        if worlds and self.config.env not in worlds and envs.WORLDS.keys() >= {self.config.env, *worlds}:
            # other names need not be those of environments: an imported log is called by its dataset
            line = f"the log is of {worlds[0]}: leave it out, or give another --log"
            raise InputError(f"--env {self.config.env}: {line}")
        log = self.columns.log
        self.notes += self._other_options()
        if self._whole.cut:
            self.notes.append(
                f"{self._whole.cut} episodes neither terminated nor ran out of steps: their return counts as it stands"
            )
        if log.episodes == 1:
            self.notes.append("one episode: estimates have no interval")
        elif len(np.unique(log.tasks)) == 1:
            self.notes.append("one task: intervals are over its episodes, and say nothing about other tasks")
        elif len(log.task_names) < FEW_UNITS:
            self.notes.append(f"{len(log.task_names)} tasks: intervals of so few say little about other tasks")
        if not log.summed(lambda part, _: np.count_nonzero(part.rewards)):
            self.notes.append("every reward in the log is 0: no estimator can tell policies apart on it")
        elif returns_alike(returns := log.returns(self.config.gamma)):
            self.notes.append(
                f"every return in the log is {returns[0]:.4g}: nothing in it tells policies apart, and intervals reach "
                "as far as the share of episodes that would end otherwise may"
            )
        return log

    def _other_options(self) -> list[str]:
        """A note where an environment that is given is not as it was when the log was played."""
        config = self.config
        if not self._whole.worlds or not (config.env or config.options):
            return []
        name = config.env or self._whole.worlds[0]
        differing = {folder: other_options(folder, name, config.options) for folder in config.log}
        return [
            f"{folder}: its episodes of {name} were played with {there}, which is not what this evaluation has: give "
            "the same --options"
            for folder, there in differing.items()
            if there
        ]

    @cached_property
    def text(self) -> TextLog:
        return text_log(self.trajectories, featuriser(self.config.features))

    @cached_property
    def candidates(self) -> list[Candidate]:
        specs = self._policy_specs
        for name in self.given:
            if name in specs:
                raise InputError(f"two candidates are called '{name}'")
        specs = specs | dict.fromkeys(self.given, CANDIDATE)
        for epsilon in self.config.epsilon:
            if not 0 <= epsilon <= 1:
                raise InputError(f"--epsilon: must lie between 0 and 1, got {epsilon:g}")
        candidates: dict[str, Candidate] = {}
        for name, spec in specs.items():
            for candidate in self._of_spec(name, spec):
                if candidates.setdefault(candidate.label, candidate) is not candidate:
                    raise InputError(f"--policy: two candidates are called '{candidate.label}'")
        return list(candidates.values())

    def _of_spec(self, name: str, spec: str) -> list[Candidate]:
        """A candidate for every epsilon; those of the log have the epsilon they logged with."""
        if spec.startswith(LOGGED):
            return logged_candidates(name, spec, self._whole.loggers)
        load = None if spec.startswith(ELSEWHERE) else partial(self.policies.load, name, spec)
        return [Candidate(name, epsilon, spec, load) for epsilon in dict.fromkeys(self.config.epsilon)]

    @cached_property
    def _policy_specs(self) -> dict[str, str]:
        """The specifications of --policy by name; `logged:` stands before one that names a policy of the log."""
        loggers = self._whole.loggers
        return resolved(named(self.config.policy, "--policy", called(loggers)), loggers)

    @cached_property
    def plain(self) -> EstimatorInput:
        """The log without a target, as it was logged; the log-probs of given loggers in the place of missing ones."""
        config = self.config
        return EstimatorInput(
            self._filled(),
            config.gamma,
            text=lambda: self.text.features,
            clip=config.clip,
            critic=config.critic,
            seed=config.seed,
        )

    def _filled(self) -> RaggedLog:
        if not self._lacks_logprobs:
            return self.log
        note = None if self._needs_no_logprobs else missing_logprobs(self.log, self.loggers, self.why_unused)
        self.notes += [note] if note else []

        def filled(part: RaggedLog, steps: slice) -> Steps:
            behaviour, owner = part.behaviour.copy(), np.repeat(part.policies, part.lengths)
            for label, logger in self.loggers.items():
                mine = np.isnan(behaviour) & (owner == self.log.policy_names.index(label))
                behaviour[mine] = logger.logprobs[steps][mine]
            return behaviour

        return replace(self.log, behaviour=self.log.each_step(filled))

    @cached_property
    def _lacks_logprobs(self) -> bool:
        return bool(self.log.summed(lambda part, _: np.isnan(part.behaviour).sum()))

    def evidence(self, reads_text: bool) -> LogEvidence:
        """The log for `judgement`; loggers are scored only where that serves weights, audit or certificate."""
        several = len(self.log.policy_names) > 1 or bool(self.config.logger) or bool(self.given_loggers)
        needed = several or self._lacks_logprobs
        loggers = self.loggers if needed else {}
        return LogEvidence(
            self.plain,
            loggers,
            self.text.places if reads_text else None,
            tuple(self.columns.groups(name).codes for name in ("split", "family")) if several else (),
            self.text.chance if reads_text else None,
            tuple(self._contradictions.values()),
            tuple(label for label in loggers if self.logger_specs[label][1] == CLONE),
        )

    def target(self, candidate: Candidate) -> TargetLog | None:
        if candidate.spec.startswith(LOGGED):
            return None
        return target_log(self._scored(candidate.name, candidate.spec), candidate.epsilon, self._text)

    def _text(self) -> TextLog:
        return self.text

    @cached_property
    def loggers(self) -> dict[str, TargetLog]:
        """Log-probs, on the whole log, of the policies that made it and are given: by --logger, or as a candidate."""
        return {label: target for label in self.logger_specs if (target := self._logger(label)) is not None}

    def logger_mismatch(self, label: str) -> bool:
        """Whether the policy given for a logger is another than the one that logged; not if it cannot be scored."""
        self._logger(label)
        return self._unused.get(label) == NOT_THE_LOGGER

    def why_unused(self, label: str) -> str:
        """Why the log-probs of a logger are not among `loggers`, as the end of a sentence about the policy."""
        return self._unused.get(label, NOT_GIVEN)

    @cached_property
    def logger_specs(self) -> dict[str, tuple[str, str, float]]:
        """Name, specification and epsilon of the loggers that are given, by their label in the log."""
        specs = {n: spec for n, spec in self._policy_specs.items() if not spec.startswith(LOGGED)}
        specs |= dict.fromkeys(self.given, CANDIDATE)
        given = {n: CLONE if spec == "clone" else spec for n, spec in self._named_loggers.items()}
        specs |= given | dict.fromkeys(self.given_loggers, LOGGER)
        loggers = self._whole.loggers
        return {
            label: (policy, specs[policy], epsilon)
            for label, (policy, epsilon) in sorted(loggers.items())
            if policy in specs
        }

    @cached_property
    def _named_loggers(self) -> dict[str, str]:
        """The specifications of --logger by name."""
        policies = {policy for policy, _ in self._whole.loggers.values()}
        loggers = named(self.config.logger, "--logger", policies)
        for name in loggers:
            if name not in policies:
                raise InputError(f"--logger {name}: no policy of the log is called so: {', '.join(sorted(policies))}")
        return loggers

    def _logger(self, label: str) -> TargetLog | None:
        """A logger's log-probs, if they are those it logged with: another checkpoint or temperature is a warning."""
        if label not in self._logged:
            self._logged[label] = self._checked(label, *self.logger_specs[label])
        return self._logged[label]

    def _checked(self, label: str, name: str, spec: str, epsilon: float) -> TargetLog | None:
        if label not in self.log.policy_names:
            return None  # all of its episodes were left out
        code = self.log.policy_names.index(label)
        if spec == CLONE:
            target, note = cloned_logger(self.text, self.log, label, self.config.seed)
            self.notes.append(note)
            return target
        if epsilon > 0 and self.text.unlisted:
            self._unused[label] = UNLISTED
            return None
        target = target_log(self._scored(name, spec), epsilon, self._text)
        if target is None:
            self._unused[label] = NO_LOGPROBS
            return None
        difference = distance_to_logger(self.log, target, code)
        by_episode = difference * float(self.log.lengths[self.log.policies == code].mean())
        given = name if (name, spec) in self.policies.objects else spec
        apart = f"{difference:.2g} nats per step, {by_episode:.2g} per episode"
        if not difference <= CLOSE_ENOUGH:
            self._unused[label] = NOT_THE_LOGGER
            if name in self.given_loggers or name in self._named_loggers:
                self._contradictions[label] = (
                    f"the logged log-probs of '{label}' contradict --logger {name}={given}, by "
                    f"{difference:.2g} nats per step: one of them is wrong"
                )
            self.notes.append(
                f"'{given}' is not the policy that logged '{label}': log-probs differ by {apart} (another checkpoint, "
                "prompt or temperature?); it is not used as a logger"
            )
            return None
        if by_episode > CLOSE_BY_EPISODE:
            self._unused[label] = TOO_FAR
            self.notes.append(
                f"'{given}' gives log-probs that differ from those that '{label}' logged by {apart}: too far to weight "
                "by (another checkpoint?), the logged ones are taken"
            )
            return None
        if difference > SHOWN_DISTANCE:
            self.notes.append(
                f"'{given}' gives log-probs that differ from those that '{label}' logged by {apart}: where weights are "
                "balanced over the loggers, they rest on its own"
            )
        return target

    def _scored(self, name: str, spec: str) -> Scores | None:
        key = (name, spec)
        if key not in self._scores:
            if spec.startswith(ELSEWHERE):
                self._scores[key] = from_file(Path(spec.removeprefix(ELSEWHERE)), self.log, self._text)
            else:
                load, folder = partial(self.policies.load, name, spec), self.config.cache_folder
                self._scores[key] = cached(load, self.policies.identity(name, spec), self.text, folder, self.watch)
        return self._scores[key]
