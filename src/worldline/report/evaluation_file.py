"""`evaluation.json` as a report reads it, and which of its estimators to go by.

Unknown keys are passed by: files of later versions, and of other tools that keep to the contract, can be shown too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from worldline.ope.estimation import TARGET_INDEPENDENT
from worldline.report.blocks import number
from worldline.report.plots import Point, drawable
from worldline.report.source import read_json
from worldline.types import InputError


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Said(Part):
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rank: int | None = None
    flag: str | None = None
    refused: str | None = None
    covers: bool | None = None

    @property
    def doubt(self) -> str:
        return f"refused: {self.refused}" if self.refused else self.flag or ""


class Candidate(Part):
    name: str
    epsilon: float = 0.0
    estimates: dict[str, Said]
    predictors: dict[str, float | None] = {}
    diagnostics: dict[str, float | None] = {}
    truth: float | None = None

    @property
    def label(self) -> str:
        return f"{self.name}@{self.epsilon:g}" if self.epsilon else self.name

    def point(self, estimator: str) -> Point | None:
        said = self.estimates.get(estimator)
        if said is None or said.value is None or not drawable(said.value):
            return None
        return Point(self.label, said.value, said.low, said.high, self.truth, bool(said.doubt))


class Trial(Part):
    policy: str
    estimates: dict[str, Said] = {}


class Record(Part):
    trials: int = 0
    mae: float
    coverage: float | None = None
    pairwise: float | None = None


class Certificate(Part):
    record: dict[str, Record] = {}


class Recommended(Part):
    estimator: str
    errors: dict[str, float] = {}
    reason: str = ""


class Meta(Part):
    estimators: list[str] = []
    notes: list[str] = []
    null_test: list[Trial] = []
    certificate: Certificate = Certificate()
    recommended: Recommended | None = None
    sensitivity: Any = None
    confidence: float = 0.95
    episodes: int | None = None
    tasks: int | None = None
    loggers: list[str] = []


class EvaluationFile(Part):
    """What is read of `evaluation.json`."""

    policies: list[Candidate]
    agreement: dict[str, dict[str, float | None]] = {}
    meta: Meta = Meta()

    @property
    def estimators(self) -> list[str]:
        return self.meta.estimators or list(self.policies[0].estimates)

    def points(self, estimator: str) -> list[Point]:
        return [point for policy in self.policies if (point := policy.point(estimator)) is not None]

    def tells_apart(self, estimator: str) -> bool:
        return len({round(point.value, 9) for point in self.points(estimator)}) > 1

    def recommended(self) -> tuple[str, str]:
        """The estimator to go by, and why: as the evaluation says, else by certified error, else by fewest doubts.

        Never one that says the same of every policy, where there is another.
        """
        told = self.meta.recommended
        if told:
            return told.estimator, told.reason or _lead(told.errors)
        seeing = [name for name in self.estimators if name not in TARGET_INDEPENDENT] or self.estimators
        able = [name for name in seeing if self.tells_apart(name)] or seeing
        certified = {name: found for name, found in self.meta.certificate.record.items() if name in able}
        most = max((found.trials for found in certified.values()), default=0)
        errors = {name: found.mae for name, found in certified.items() if found.trials == most}
        if errors:
            return min(errors, key=lambda name: errors[name]), _lead(errors)
        doubts = {name: sum(not p.point(name) or bool(p.estimates[name].doubt) for p in self.policies) for name in able}
        return min(able, key=lambda name: doubts[name]), "fewest reasons for doubt; nothing is certified on this log"


def _lead(errors: Mapping[str, float]) -> str:
    """By how much the best is ahead."""
    order = sorted(errors, key=lambda name: errors[name])
    second = "".join(f"; next is {name}, {number(errors[name])}" for name in order[1:2])
    best = f", {number(errors[order[0]])}" if order else ""
    return f"smallest certified error on this log{best}{second}"


def read_evaluation(path: Path) -> EvaluationFile:
    """The file, or one line that names the field that is wrong."""
    found = read_json(path)
    try:
        evaluation = EvaluationFile.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: no evaluation: '{where}': {first['msg']}") from None
    if not evaluation.policies or not evaluation.estimators:
        raise InputError(f"{path}: an evaluation of nothing: 'policies' and their 'estimates' are empty")
    return evaluation
