"""The result of a comparison: the one model of `comparison.json`, and its answer in words."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from worldline import files
from worldline.comparison.paired import PairedDifference
from worldline.notebook import html_table
from worldline.number_text import number, probability, signed
from worldline.types import InputError

Verdict = Literal["better", "worse", "unclear"]


class ComparisonPart(BaseModel):
    """A part of the result; keys of later versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)


class PairedDifferenceResult(ComparisonPart):
    """A difference, policy less baseline; `p_better` is the probability that it is above 0."""

    value: float
    low: float | None
    high: float | None
    p_better: float | None
    n: int

    @classmethod
    def of(cls, difference: PairedDifference) -> "PairedDifferenceResult":
        return cls.model_validate(difference)

    @property
    def span(self) -> str:
        return "" if self.low is None or self.high is None else f"[{signed(self.low)}, {signed(self.high)}]"

    @property
    def sign(self) -> int:
        """1 or -1 where the interval leaves out 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


class LoggedPolicy(ComparisonPart):
    """One policy of the log, over all its tasks; steps and cost are over its episodes."""

    policy: str
    episodes: int
    tasks: int
    unknown: int
    """Episodes whose outcome the log does not say; they are left out."""
    value: float
    """The mean over its tasks, of each task's mean over its episodes: as in the pairs."""
    by_episode: float | None = None
    """The mean over its episodes: another one where tasks have unequal numbers of them."""
    low: float | None
    high: float | None
    steps: float | None
    """None where only outcomes were logged."""
    cost: float | None


class TaskGroup(ComparisonPart):
    """The same comparison within one group of the breakdown."""

    group: str
    tasks: int
    value: float
    baseline_value: float
    difference: PairedDifferenceResult


class TaskDifference(ComparisonPart):
    """A task the two policies did differently on, with the episodes to read."""

    env: str
    task_id: str
    value: float
    baseline_value: float
    episodes: tuple[str, ...]
    baseline_episodes: tuple[str, ...]


class Pair(ComparisonPart):
    """A policy against the baseline, on the tasks that both played."""

    policy: str
    baseline: str
    paired: bool
    """False where they share fewer than two tasks and have others: then all tasks of each count, and so does chance."""
    tasks: int
    value: float
    baseline_value: float
    difference: PairedDifferenceResult
    wins: int
    ties: int
    losses: int
    steps: PairedDifferenceResult | None
    cost: PairedDifferenceResult | None
    needed: int | None
    """Tasks that would tell in four of five logs, were the difference as large as here; where `unclear`."""
    groups: tuple[TaskGroup, ...] = ()
    differing: tuple[TaskDifference, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if self.difference.sign == 0:
            return "unclear"
        return "better" if self.difference.sign > 0 else "worse"


class LogComparison(ComparisonPart):
    """Logged policies against a baseline."""

    metric: str
    by: str
    confidence: float
    baseline: str
    episodes: int
    policies: tuple[LoggedPolicy, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """In sentences: which policy is better, by how much, how surely."""
        return " ".join(sentence(pair, self.metric, self.confidence) for pair in self.pairs[:3])

    def pair(self, policy: str) -> Pair:
        """The comparison of `policy` with the baseline."""
        for pair in self.pairs:
            if pair.policy == policy:
                return pair
        there = ", ".join(pair.policy for pair in self.pairs)
        raise InputError(f"no comparison of '{policy}' with '{self.baseline}': there are {there}")

    def as_dict(self) -> dict[str, Any]:
        return {"answer": self.answer, **self.model_dump(mode="json")}

    def __repr__(self) -> str:
        return f"<comparison of {len(self.policies)} policies by {self.metric}: {self.answer}>"

    def __str__(self) -> str:
        return self.answer

    def _repr_html_(self) -> str:
        rows = [
            (pair.policy, f"{signed(pair.difference.value)} {pair.difference.span}", str(pair.tasks), pair.verdict)
            for pair in self.pairs[:40]
        ]
        return html_table(self.answer, ("policy", f"{self.metric}, less {self.baseline}", "tasks", "verdict"), rows)


def sentence(pair: Pair, metric: str, confidence: float) -> str:
    """The answer of one pair in words."""
    difference = pair.difference
    values = f"{metric} {number(pair.value)} against {number(pair.baseline_value)} on {_tasks(pair)}"
    chance = "" if difference.p_better is None else f", probability of being better {probability(difference.p_better)}"
    by = f"{signed(difference.value)} {difference.span}".strip()
    if pair.verdict == "unclear":
        likely = "in four of five logs, if the difference is as large as here"
        more = f" About {pair.needed:,} tasks would tell {likely}." if pair.needed else ""
        return (
            f"The log does not tell whether {pair.policy} is better than {pair.baseline}: {values}, {by}{chance}"
            f"{_not_enough(difference, confidence)}.{more}"
        )
    return f"{pair.policy} is {pair.verdict} than {pair.baseline}: {values}, {by}{chance}."


def _tasks(pair: Pair) -> str:
    """The tasks that the values are means over."""
    if pair.paired:
        return f"the {pair.tasks} tasks both played" if pair.tasks > 1 else "the one task both played"
    return "all tasks of each, of which they share one" if pair.tasks else "tasks they do not share"


def _not_enough(difference: PairedDifferenceResult, confidence: float) -> str:
    """Why a probability that looks like an answer is none."""
    p = difference.p_better
    if p is None:
        return ""
    level = (1 + confidence) / 2
    if 1 - level < p < level:
        verdict, needed = ("better", f"more than {level:.4g}") if p >= 0.5 else ("worse", f"less than {1 - level:.4g}")
        return f" (the interval holds 0: '{verdict}' needs {needed})"
    return " (the interval holds 0)"


def read_comparison(path: Path) -> LogComparison:
    """A comparison.json; InputError names what is wrong with it."""
    try:
        return LogComparison.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: corrupt: {where}: {first['msg']}: write it again with worldline compare") from None


def write_comparison(comparison: LogComparison, folder: Path) -> Path:
    """comparison.json in `folder`, whole or not at all."""
    path = folder / "comparison.json"
    files.write_json(path, comparison.as_dict())
    return path
