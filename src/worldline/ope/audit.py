"""The audit of a log, before any estimate: are its log-probs those its policies acted with, do these share tasks?

Importance weights rest on the logged log-probabilities, and nothing in an estimate shows that they are wrong. But
for every policy pi, E[pi(a|h) / b(a|h)] = 1 at every step if b is what acted: the mean of these step ratios is
tested for every logger, with each candidate and with uniform chance as pi. A mean above 1 convicts the log-probs; one
below 1 may also mean that pi does what the logger never does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from worldline.ope.intervals import task_units
from worldline.ope.log import Codes, Episodes, RaggedLog, RefusalError, Steps, TargetLog
from worldline.ope.weights import exp, log_ratios

CONVICTING = 3.0
"""Standard errors by which a mean step ratio exceeds 1 where log-probs are wrong. Ratios are skewed to the right: a
mean too high by so much is rarer than for a normal: about one test in 1,000 of sound logs."""
LEAST_EXCESS = 0.02
"""A mean step ratio closer to 1 than that does no harm, however sure the difference is."""
UNIFORM = "chance"
PERMUTATIONS = 200
MOST_PERMUTED = 20_000
SHARED = 4.0
"""Standard deviations above chance at which loggers do not share their tasks."""
MOST_ALONE = 0.1
"""Share of a policy's episodes on tasks of its own, of tasks that were dealt on purpose."""
Sharing = Literal["shared", "apart", "unknown"]
"""Of labels of several policies; "unknown" where nothing in the log shows either."""


@dataclass(frozen=True)
class Probe:
    """The mean of one policy's step ratios over one logger's steps: 1 in expectation if the log-probs are right."""

    policy: str
    logger: str
    mean: float
    error: float

    @property
    def convicts(self) -> bool:
        excess = self.mean - 1
        return excess > LEAST_EXCESS and excess > CONVICTING * self.error

    def line(self) -> str:
        return (
            f"the log-probs of '{self.logger}' are not those it acted with: the step weights of {self.policy} average "
            f"{self.mean:.2f} ± {self.error:.2f}, and 1 is due (another temperature, prompt or checkpoint?)"
        )


@dataclass(frozen=True)
class Audit:
    """What was tested, and what speaks against every estimate that is made of log-probabilities."""

    probes: tuple[Probe, ...] = ()
    tasks: Sharing = "shared"
    """Whether the loggers share theirs."""
    contradictions: tuple[str, ...] = ()
    clones: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no weight on this log can be trusted: the clearest probe of each logger, and contradictions."""
        worst: dict[str, Probe] = {}
        for probe in sorted((p for p in self.probes if p.convicts), key=lambda p: (-p.error / (p.mean - 1), p.mean)):
            worst[probe.logger] = probe
        cloned = [f"the log-probs of '{name}' are estimated by a clone" for name in self.clones]
        return (*self.contradictions, *(probe.line() for probe in worst.values()), *cloned)


def audit(
    log: RaggedLog,
    targets: Mapping[str, TargetLog],
    starts: Codes | None = None,
    kinds: Sequence[Codes] = (),
    chance: Steps | None = None,
    contradictions: Sequence[str] = (),
    clones: Sequence[str] = (),
    seed: int = 0,
) -> Audit:
    """`targets` are candidates, by label; `starts` groups episodes that begin alike (goal and observation), `kinds` by
    split and by family. `chance` is log u(a|h) of the logged actions, u uniform over the admissible ones: -inf where an
    agent wrote another, which u never takes.
    """
    tasks = shared_tasks(log.tasks, starts, kinds, log.policies, seed)
    return Audit(tuple(probes(log, targets, chance)), tasks, tuple(contradictions), tuple(clones))


def probes(log: RaggedLog, targets: Mapping[str, TargetLog], chance: Steps | None = None) -> list[Probe]:
    """Every candidate, and chance where the admissible actions are listed, on every logger's steps."""
    made: list[Probe] = []
    by_chance = [] if chance is None or not targets else [(UNIFORM, TargetLog(chance))]
    for label, target in [*targets.items(), *by_chance]:
        try:
            ratios = _step_ratios(log, target)
        except RefusalError:
            return []
        made += _probes(label, ratios, log)
    return made


def _step_ratios(log: RaggedLog, target: TargetLog) -> Steps:
    """pi(a|h) / b(a|h) of every step."""
    ratios = log_ratios(log, target)
    return log.each_step(lambda _, steps: exp(ratios[steps]))


def _probes(label: str, ratios: Steps, log: RaggedLog) -> list[Probe]:
    """One policy on the steps of every logger; the error is clustered by task."""
    sums = ratio_sums(ratios, log)
    counts = np.bincount(log.policies)
    return [
        Probe(label, log.policy_names[code] if log.policy_names else str(code), *sums.mean(log, log.policies == code))
        for code in np.flatnonzero(counts > 1)
    ]


@dataclass(frozen=True, eq=False)
class RatioSums:
    """The sum of an episode's step ratios, over `scale`: ratios reach 1e260, and their squares would not fit."""

    scale: float
    sums: Episodes

    def mean(self, log: RaggedLog, own: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """The mean of step ratios over these episodes, and its standard error by tasks."""
        lengths, sums = log.lengths[own], self.sums[own]
        mean = float(sums.sum() / lengths.sum())
        units = task_units(((sums - mean * lengths) / lengths.mean())[:, None], log.tasks[own])
        return mean * self.scale, float(units.std(ddof=1) / np.sqrt(len(units))) * self.scale


def ratio_sums(ratios: Steps, log: RaggedLog) -> RatioSums:
    scale = max(1.0, *(float(ratios[steps].max()) for _, steps, _ in log.blocks()))
    return RatioSums(scale, log.each_episode(lambda part, steps: part.total(ratios[steps] / scale)))


def step_mean(ratios: Steps, log: RaggedLog) -> tuple[float, float]:
    """The mean of step ratios, and its standard error by tasks."""
    return ratio_sums(ratios, log).mean(log, np.ones(log.episodes, dtype=np.bool_))


def shared_tasks(tasks: Codes, starts: Codes | None, kinds: Sequence[Codes], policies: Codes, seed: int = 0) -> Sharing:
    """Whether the policies of a log share their tasks, by these and by how episodes begin; else by their `kinds`.

    Where every task is new (an environment of endless seeds), neither can be shown of tasks. Then the split or family
    decides, where there are several: policies whose tasks are of the same kinds, in the same shares, are taken to have
    drawn them alike. A label that all episodes have is no evidence, it may be a default. Without any the answer is
    "unknown", and each logger's own log-probs are kept: these give sound weights whatever anybody played, and cost
    variance; a mixture of loggers that played other tasks gives the wrong value with a narrow interval.
    """
    shown = [sharing(labels, policies, seed) for labels in (tasks, starts) if labels is not None]
    if set(shown) == {"unknown"}:
        shown = [sharing(kind, policies, seed) for kind in kinds if len(np.unique(kind)) > 1]
    return "apart" if "apart" in shown else "shared" if "shared" in shown else "unknown"


def sharing(labels: Codes, policies: Codes, seed: int = 0) -> Sharing:
    """Whether episodes of one label are by one policy more often than by chance.

    Chance is every policy's episodes dealt out anew. "shared" takes evidence: policies without a label in common would
    have stood out from chance, and each has some in common. Where labels are dealt more evenly than by chance (every
    policy played each task once), chance says nothing of those that one policy alone has: then no two may have many.
    """
    if len(np.unique(policies)) < 2:
        return "shared"
    rng = np.random.default_rng(seed)
    if len(labels) > MOST_PERMUTED:
        kept = rng.choice(len(labels), MOST_PERMUTED, replace=False)
        labels, policies = labels[kept], policies[kept]
    codes, who = np.unique(labels, return_inverse=True)[1], np.unique(policies, return_inverse=True)[1]
    width = int(who.max()) + 1
    sizes = np.bincount(codes)

    def dealt(owners: Codes) -> npt.NDArray[np.int64]:
        return np.bincount(codes * width + owners, minlength=len(sizes) * width).reshape(-1, width)

    def concentration(owners: Codes) -> float:
        return float((np.square(dealt(owners)).sum(axis=1) / sizes).sum())

    chance = np.array([concentration(rng.permutation(who)) for _ in range(PERMUTATIONS)])
    slack = max(SHARED * float(chance.std()), 1e-9 * len(labels))
    observed, entirely_apart = concentration(who), len(labels)
    if observed > chance.mean() + slack:
        return "apart"
    counts = dealt(who)
    alone = (counts * (counts == sizes[:, None])).sum(axis=0) / counts.sum(axis=0)
    if entirely_apart <= chance.mean() + slack or alone.max() == 1:
        return "unknown"
    uneven = observed < chance.mean() - slack and int((alone > MOST_ALONE).sum()) > 1
    return "apart" if uneven else "shared"
