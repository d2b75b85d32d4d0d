"""Logged policies against each other, paired by task: no environment, no log-probs, only how the episodes ended."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from worldline.comparison.outcomes import METRICS, EpisodeOutcome, Metric, chosen_metric, read_outcomes
from worldline.comparison.paired import EQUAL, Values, paired, tasks_needed, unpaired, wins
from worldline.comparison.policy_side import PolicySide, Task
from worldline.comparison.result import (
    LogComparison,
    LoggedPolicy,
    Pair,
    PairedDifferenceResult,
    TaskDifference,
    TaskGroup,
    write_comparison,
)
from worldline.config import Config, Folder, listed, option, positional
from worldline.number_text import number
from worldline.ope.intervals import two_outcomes
from worldline.types import InputError

FEW_TASKS = 20
"""Below this many tasks Student's interval of outcomes that are 0 or 1 is rough."""
MOST_NEEDED = 1_000_000
NOTED = 0.01
"""By which share of it the mean over episodes is another one than the mean over tasks, so that a note says so."""
MOST_TASK = 80
"""Characters of a task id in a note."""
MOST_APART = 8
"""Groups in a note."""


class CompareConfig(Config):
    """Is one logged policy better than another? Paired by task, from the episodes alone.

    The first of --policies is the baseline. Episodes of one task are averaged; the tasks that both policies played are
    compared, with Student's interval, the probability of being better, and wins, ties and losses per task.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline compare logs/ --policies v2 v3",
        "worldline compare old/ new/ --by split --out runs/choice",
        "worldline compare logs/ --metric return --baseline v2 --by task_id:-",
    )

    log: tuple[Path, ...] = positional(help="folders of logged episodes")
    policies: tuple[str, ...] = option((), help="which policies, the baseline first; default: all of the log")
    baseline: str = option("", help="what the others are compared with; default: the first of --policies, else by name")
    metric: Metric = option("auto", help="success, return or score; auto: success where every episode says it")
    by: str = option("", help="a breakdown: env, split, family, task_id:SEPARATOR, or a key of the episodes' meta")
    cost: str = option("", help="key of meta that holds an episode's cost; default: cost, total_cost, agent_cost, ...")
    confidence: float = option(0.95, help="confidence level of the intervals", gt=0, lt=1)
    out: Folder | None = option(None, help="folder for comparison.json, which report and view show")
    overwrite: bool = option(False, help="replace a comparison.json that is there")


def compare(config: CompareConfig) -> LogComparison:
    """Compare what the config asks for, and keep it where it says."""
    if config.out is not None and (config.out / "comparison.json").exists() and not config.overwrite:
        raise InputError(f"{config.out / 'comparison.json'}: is there already: --overwrite replaces it")
    outcomes = read_outcomes(config.log, config.by, config.cost)
    baseline, *others = _policies(config, outcomes)
    outcomes = [outcome for outcome in outcomes if outcome.policy in {baseline, *others}]
    metric = chosen_metric(config.metric, outcomes)
    sides = {name: PolicySide(name, outcomes, metric) for name in (baseline, *others)}
    for side in sides.values():
        if not side.values:
            raise InputError(_no_outcome(side.name, metric, outcomes))
    ends = (0.0, 1.0) if metric == "success" else two_outcomes(np.concatenate([s.values for s in sides.values()]))
    limit = None if ends is None else ends[1] - ends[0]
    pairs = [_pair(sides[baseline], sides[name], config, limit) for name in others]
    policies = tuple(side.summary(config.confidence, ends) for side in sides.values())
    if len(pairs) > 1:
        pairs.sort(key=lambda pair: -pair.difference.value)
    comparison = LogComparison(
        metric=metric,
        by=config.by,
        confidence=config.confidence,
        baseline=baseline,
        episodes=len(outcomes),
        policies=policies,
        pairs=tuple(pairs),
        warnings=(*_warnings(sides, pairs, config.confidence), *_unequal(policies, metric)),
    )
    if config.out is not None:
        write_comparison(comparison, config.out)
    return comparison


def _policies(config: CompareConfig, outcomes: Sequence[EpisodeOutcome]) -> list[str]:
    """The policies to compare, the baseline first."""
    there = sorted({outcome.policy for outcome in outcomes})
    for flag, wanted in (("--policies", config.policies), ("--baseline", [config.baseline] * bool(config.baseline))):
        for name in wanted:
            if name not in there:
                raise InputError(f"{flag}: the log has no policy '{name}': its policies are {listed(name, there)}")
    chosen = list(dict.fromkeys(config.policies)) or there
    if config.baseline:
        chosen = [config.baseline, *(name for name in chosen if name != config.baseline)]
    if len(chosen) < 2:
        one = f"the log has one policy, '{there[0]}'" if len(there) == 1 else f"there are {', '.join(there[:12])}"
        raise InputError(f"--policies: two are needed to compare: {one}")
    return chosen


def _no_outcome(policy: str, metric: str, outcomes: Iterable[EpisodeOutcome]) -> str:
    own = [outcome for outcome in outcomes if outcome.policy == policy]
    others = [name for name in METRICS if any(outcome.value(name) is not None for outcome in own)]
    if others:
        return f"--metric {metric}: no episode of '{policy}' says it: --metric {' or '.join(others)}"
    return (
        f"no episode of '{policy}' says its success, return or score: if it was imported, import its file again with "
        "--map reward=FIELD (or success=FIELD), into a new folder; if it was collected, let its environment give "
        "rewards that are numbers and collect again"
    )


def _pair(baseline: PolicySide, policy: PolicySide, config: CompareConfig, limit: float | None) -> Pair:
    """`limit`: the largest difference that there can be, None where nobody can say."""
    shared = [task for task in baseline.by_task if task in policy.by_task]
    only = len(shared) == len(baseline.by_task) == len(policy.by_task) == 1
    if len(shared) < 2 and not only:
        return _unpaired(baseline, policy, config, len(shared), limit)
    before, after = baseline.means(shared), policy.means(shared)
    differences = after - before
    most = _most(before, after)
    difference = PairedDifferenceResult.of(paired(differences, config.confidence, most, limit))
    won, tied, lost = wins(differences, most)
    groups, apart = _groups(baseline, policy, config, most, limit) if config.by else ([], [])
    doubts = [_one_task(baseline, policy)] if only else _doubts(baseline, policy, len(shared))
    if config.metric == "auto" and policy.metric == "success":
        returns = _secondary(baseline, policy, shared, "return", config.confidence)
        doubts += _returns_that_differ(policy.name, difference, returns)
    return Pair(
        policy=policy.name,
        baseline=baseline.name,
        paired=True,
        tasks=len(shared),
        value=float(after.mean()),
        baseline_value=float(before.mean()),
        difference=difference,
        wins=won,
        ties=tied,
        losses=lost,
        steps=_secondary(baseline, policy, shared, "steps", config.confidence),
        cost=_secondary(baseline, policy, shared, "cost", config.confidence),
        needed=_needed(differences, difference, config.confidence),
        groups=tuple(groups),
        differing=_differing(baseline, policy, shared, before, after, most),
        warnings=(*doubts, *apart),
    )


def _unpaired(
    baseline: PolicySide, policy: PolicySide, config: CompareConfig, shared: int, limit: float | None
) -> Pair:
    """All tasks of each; the averages of each task are the units."""
    before, after = (side.means(list(side.by_task)) for side in (baseline, policy))
    steps_before, steps_after = (side.means(list(side.by_task), "steps") for side in (baseline, policy))
    steps_before, steps_after = steps_before[np.isfinite(steps_before)], steps_after[np.isfinite(steps_after)]
    return Pair(
        policy=policy.name,
        baseline=baseline.name,
        paired=False,
        tasks=shared,
        value=float(after.mean()),
        baseline_value=float(before.mean()),
        difference=PairedDifferenceResult.of(unpaired(before, after, config.confidence, limit)),
        wins=0,
        ties=0,
        losses=0,
        steps=PairedDifferenceResult.of(unpaired(steps_before, steps_after, config.confidence))
        if len(steps_before) and len(steps_after)
        else None,
        cost=None,
        needed=None,
        warnings=(_why_unpaired(baseline, policy, shared),),
    )


def _why_unpaired(baseline: PolicySide, policy: PolicySide, shared: int) -> str:
    names = f"{policy.name} and {baseline.name}"
    environments, ids = ([{task[part] for task in side.by_task} for side in (policy, baseline)] for part in (0, 1))
    if not shared and ids[0] & ids[1]:
        theirs, others = (", ".join(sorted(of)[:3]) for of in environments)
        return (
            f"{names} have task ids in common, but in other environments ({theirs}; {others}), so what differs may be "
            "the environment: let both play in one"
        )
    return (
        f"{names} have {'only one' if shared else 'no'} task in common, so easy and hard tasks may explain the "
        "difference: let both play the same tasks (the same task ids)"
    )


def _secondary(
    baseline: PolicySide, policy: PolicySide, tasks: Sequence[Task], field: str, confidence: float
) -> PairedDifferenceResult | None:
    """The difference of returns, steps or cost, over the tasks of which both sides say it; None below two."""
    differences = policy.means(tasks, field) - baseline.means(tasks, field)
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return None
    return PairedDifferenceResult.of(paired(differences, confidence, float(np.abs(differences).max()) or 1.0))


def _returns_that_differ(
    policy: str, success: PairedDifferenceResult, returns: PairedDifferenceResult | None
) -> list[str]:
    """A note, where returns tell which is better and success does not, or tells the opposite."""
    if returns is None or returns.sign == 0 or returns.sign == success.sign:
        return []
    better = "higher" if returns.sign > 0 else "lower"
    opposite = "success says the opposite" if success.sign else "success does not tell"
    return [f"{opposite}, but the return of {policy} is {better}, by {returns.span}: --metric return compares returns"]


def _needed(differences: Values, difference: PairedDifferenceResult, confidence: float) -> int | None:
    if difference.low is None or difference.high is None or not difference.low <= 0 <= difference.high:
        return None
    if difference.value == 0:
        return None
    needed = tasks_needed(differences, confidence, abs(difference.value))
    return needed if len(differences) < needed < MOST_NEEDED else None


def _most(before: Values, after: Values) -> float:
    """The largest difference that a task may have, as far as values go."""
    return float(max(np.abs([*before, *after]).max(), np.ptp([*before, *after]))) or 1.0


def _groups(
    baseline: PolicySide, policy: PolicySide, config: CompareConfig, most: float, limit: float | None
) -> tuple[list[TaskGroup], list[str]]:
    """The comparison over the episodes of each group, and a note on the groups in which no task was played by both."""
    groups, apart = [], []
    sides = baseline.groups(), policy.groups()
    for name in sorted({*sides[0], *sides[1]}):
        first, second = (side.get(name) for side in sides)
        shared = [task for task in first.by_task if task in second.by_task] if first and second else []
        if not first or not second or not shared:
            apart.append(name)
            continue
        before, after = first.means(shared), second.means(shared)
        largest = max(most, _most(before, after))
        difference = paired(after - before, config.confidence, largest, limit)
        groups.append(
            TaskGroup(
                group=name,
                tasks=len(shared),
                value=float(after.mean()),
                baseline_value=float(before.mean()),
                difference=PairedDifferenceResult.of(difference),
            )
        )
    shown = ", ".join(name[:MOST_TASK] for name in apart[:MOST_APART]) + (", ..." if len(apart) > MOST_APART else "")
    names = f"{policy.name} and {baseline.name}"
    return groups, [f"--by {config.by}: {names} have no task in common within {shown}"] if apart else []


def _differing(
    baseline: PolicySide, policy: PolicySide, tasks: Sequence[Task], before: Values, after: Values, most: float
) -> tuple[TaskDifference, ...]:
    """The largest difference first; `most` as in `paired`."""
    order = sorted(range(len(tasks)), key=lambda k: (-abs(after[k] - before[k]), tasks[k]))
    return tuple(
        TaskDifference(
            env=tasks[k][0],
            task_id=tasks[k][1],
            value=float(after[k]),
            baseline_value=float(before[k]),
            episodes=policy.names(tasks[k]),
            baseline_episodes=baseline.names(tasks[k]),
        )
        for k in order
        if abs(after[k] - before[k]) > EQUAL * most
    )


def _one_task(baseline: PolicySide, policy: PolicySide) -> str:
    ((_, task),) = policy.by_task
    return (
        f"all episodes of {policy.name} and {baseline.name} are of one task, '{task[:MOST_TASK]}', which tells nothing "
        "of others: let both play more; if their files name more, import them again with --map task_id=FIELD, into a "
        "new folder"
    )


def _doubts(baseline: PolicySide, policy: PolicySide, shared: int) -> list[str]:
    doubts = []
    for side in (baseline, policy):
        left = len(side.by_task) - shared
        if left:
            doubts.append(
                f"{left} of {len(side.by_task)} tasks of {side.name} were played by it alone: they do not count"
            )
    if shared < FEW_TASKS:
        doubts.append(f"{shared} tasks are few: the interval is rough")
    return doubts


def _unequal(policies: Sequence[LoggedPolicy], metric: str) -> list[str]:
    """A note on each policy whose mean over tasks is shown as another one than its mean over episodes."""
    return [
        f"{policy.policy}: every task counts the same, whatever number of episodes it has: {metric} {shown}, "
        f"{plain} over all {policy.episodes - policy.unknown:,} episodes alike"
        for policy in policies
        if policy.by_episode is not None
        and (shown := number(policy.value)) != (plain := number(policy.by_episode))
        and abs(policy.value - policy.by_episode) > NOTED * max(abs(policy.value), abs(policy.by_episode))
    ]


def _warnings(sides: Mapping[str, PolicySide], pairs: Sequence[Pair], confidence: float) -> list[str]:
    warnings = [
        f"{side.unknown} episodes of {side.name} do not say how they ended and are left out"
        for side in sides.values()
        if side.unknown
    ]
    if len(pairs) > 1:
        chance = (1 - confidence) * len(pairs)
        warnings.append(
            f"{len(pairs)} comparisons at once: were there no difference at all, {chance:.2g} intervals would leave "
            "out 0 by chance alone, on average"
        )
    return warnings
