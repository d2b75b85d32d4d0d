"""The audit of a log, before any estimate: are its log-probs those its policies acted with, do these share tasks?

Importance weights rest on the logged log-probabilities, and nothing in an estimate shows that they are wrong. But
for every policy pi, E[pi(a|h) / b(a|h)] = 1 at every step if b is what acted, whatever the task and whatever went
before: these step ratios are tested for every logger, with each candidate and with uniform chance as pi. A mean above 1
convicts the log-probs; one below 1 may also mean that pi does what the logger never does.

The test is a wager (Ville 1939; Waudby-Smith & Ramdas 2024). Who stakes a share c of a fortune on every step, and is
paid the ratio, has the product of 1 + c (ratio - 1), whose mean is at most 1 on sound log-probs: it exceeds x once in x
logs at most, with two tasks as with thousands, and however skewed ratios are. A standard error has no such guarantee:
that of a few tasks is too small as often as not, and so is that of a ratio that is 0 once in a hundred steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from worldline.ope.log import Codes, Episodes, Matrix, RaggedLog, RefusalError, Steps, TargetLog
from worldline.ope.weights import exp, log_ratios

CONVICTING = 100.0
"""Times all probes of a log: the gain of a wager that convicts. At most one of so many sound logs is convicted; in
simulations fewer than one in 1,000."""
STAKES = tuple(0.8 * 2.0**-k for k in range(12))
"""Shares that are staked, each of a part of the fortune in proportion to it: the first of half, the next of a quarter.
One is right for ratios of any spread, and a log that takes a small stake is long enough to afford a small part."""
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
    log_gain: float
    """Of the wager that ratios are above 1, over the number of probes: its logarithm."""

    @property
    def convicts(self) -> bool:
        return self.mean - 1 > LEAST_EXCESS and self.log_gain > np.log(CONVICTING)

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
        for probe in sorted((p for p in self.probes if p.convicts), key=lambda p: p.log_gain):
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
    return [replace(probe, log_gain=probe.log_gain - float(np.log(len(made)))) for probe in made]


def _step_ratios(log: RaggedLog, target: TargetLog) -> Steps:
    """pi(a|h) / b(a|h) of every step."""
    ratios = log_ratios(log, target)
    return log.each_step(lambda _, steps: exp(ratios[steps]))


def _probes(label: str, ratios: Steps, log: RaggedLog) -> list[Probe]:
    """One policy on the steps of every logger."""
    sums, gains = ratio_sums(ratios, log), wager(ratios, log)
    made: list[Probe] = []
    for code in np.flatnonzero(np.bincount(log.policies) > 1):
        own = log.policies == code
        name = log.policy_names[code] if log.policy_names else str(code)
        log_gain = float(logsumexp(gains[:, own].sum(axis=1), b=STAKES / np.sum(STAKES)))
        made.append(Probe(label, name, *sums.mean(log, own), log_gain))
    return made


def wager(ratios: Steps, log: RaggedLog) -> Annotated[Matrix, "stakes episodes"]:
    """log of the product of 1 + c (ratio - 1) over the steps of an episode, for every stake c."""

    def staked(stake: float) -> Episodes:
        return log.each_episode(lambda part, steps: part.total(np.log1p(stake * (ratios[steps] - 1))))

    return np.stack([staked(stake) for stake in STAKES])


@dataclass(frozen=True, eq=False)
class RatioSums:
    """The sum of an episode's step ratios, over `scale`: ratios reach 1e260, and their squares would not fit."""

    scale: float
    sums: Episodes

    def mean(self, log: RaggedLog, own: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """The mean of step ratios over these episodes, and its standard error.

        Episodes are the units, not tasks: what a ratio lacks to 1 is 0 in expectation on every task.
        """
        units = self.units(log, own)
        return float(units.mean()) * self.scale, float(units.std(ddof=1) / np.sqrt(len(units))) * self.scale

    def units(self, log: RaggedLog, own: npt.NDArray[np.bool_]) -> Episodes:
        """One number per episode, over `scale`, whose mean is that of the steps."""
        lengths, sums = log.lengths[own], self.sums[own]
        mean = float(sums.sum() / lengths.sum())
        return np.asarray(mean + (sums - mean * lengths) / lengths.mean())


def ratio_sums(ratios: Steps, log: RaggedLog) -> RatioSums:
    scale = max(1.0, *(float(ratios[steps].max()) for _, steps, _ in log.blocks()))
    return RatioSums(scale, log.each_episode(lambda part, steps: part.total(ratios[steps] / scale)))


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
