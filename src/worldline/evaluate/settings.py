"""The settings of `worldline evaluate`."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ValidationInfo, field_validator

from worldline.config import Folder, option
from worldline.ope.bounds import PROVEN, Bound
from worldline.ope.estimation import ESTIMATORS, Critic
from worldline.ope.intervals import Method
from worldline.policies import PolicyConfig
from worldline.types import InputError

AUTO = "auto"
DEFAULT = ("naive", "dm", "is", "wis", "pdis", "pdwis", "mis", "dice", "lfqe", "dr", "wdr", "magic")


class EvaluateConfig(PolicyConfig):
    """Value, interval and rank of candidate policies from a log, by every estimator, without running any of them.

    What the log says about each candidate comes first, then what the estimators are worth on this log, then the
    estimates. With --truth, how well they agree with it.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline evaluate --log logs/ --policy new=hf:runs/new/model old=hf:runs/old/model --epsilon 0 0.2",
        "worldline evaluate --log logs/ --world-model wm/ --policy new=hf:runs/new/model old=hf:runs/old/model",
        "worldline evaluate --log logs/ --policy v2 v3",
        "worldline evaluate --log logs/ --policy mine=logprobs:mine.jsonl --estimators wis pdwis",
        "worldline evaluate --log logs/ --env mine:World --policy new=mine:new --logger old=mine:old",
        "worldline evaluate --log a/ b/ --policy expert random --logger expert=expert --truth truth.json",
    )

    absent: ClassVar[dict[str, str]] = {
        "resume": "evaluate needs none: the same command goes on from its cache (--cache, or OUT/cache)"
    }

    log: tuple[Path, ...] = option(help="folders of logged episodes", min_length=1)
    policy: tuple[str, ...] = option(
        (), help="candidates, NAME=SPEC: as in collect, NAME=logprobs:FILE, or the NAME of a policy that is in the log"
    )
    epsilon: tuple[float, ...] = option(
        (0.0,), help="probabilities of a uniformly random action, mixed into every candidate"
    )
    estimators: tuple[str, ...] = option(
        (AUTO,),
        help=f"auto: {', '.join(DEFAULT)}, and those of the world model; all: also "
        f"{', '.join(name for name in ESTIMATORS if name not in DEFAULT)}; or some of these names",
    )
    world_model: Path | None = option(
        None, help="folder of a fitted world model: adds wm, wm-magic, wm-dr, adwm, am-dr and its rivals"
    )
    interface: Literal["auto", "text", "soft", "distilled"] = option(
        "auto", help="how policies read imagined observations: as text, or as soft tokens if their weights are local"
    )
    text_model: str = option(
        "", help="hf:PATH of a model that predicts observations: adds the world model wm-text; needs --world-model"
    )
    rollouts: int | None = option(None, help="imagined episodes per task; default: enough for 512 in all", ge=1)
    rival_rollouts: int = option(1, help="imagined episodes per task for the rival world models", ge=1)
    imagined_at_once: int = option(256, help="imagined episodes in one batch", ge=1)
    refit: bool = option(
        True, help="refit the world model without some loggers, to measure its error on them: takes minutes"
    )
    refit_estimators: tuple[str, ...] = option(
        (), help="world-model estimators whose error the refits measure; default: all"
    )
    sensitivity: int = option(
        0,
        help="number of starts from which guided imagination (w, and alpha where possible) is compared; 0: none",
        ge=0,
    )
    logger: tuple[str, ...] = option(
        (),
        help="policies that made the log, as NAME=SPEC with the NAME in the log, or NAME=clone: for weights, audit "
        "and certificate",
    )
    truth: Path | None = option(None, help="JSON of true values, {NAME: value} or {NAME@EPSILON: value}")
    gamma: float = option(1.0, help="discount of the value; 1: plain return", gt=0, le=1)
    clip: float | None = option(None, help="largest weight of the -clip estimators; default: sqrt(episodes)", gt=0)
    critic: Critic = option("linear", help="value function of dr, wdr, magic: linear (lfqe) or network (fqe)")
    features: str = option("ngrams:256", help="text features of value functions: ngrams:WIDTH or module:attr")
    interval: Method | Bound = option(
        "bootstrap", help="kind of interval; bernstein, hcope and anytime are proven, for few estimators: --bounds"
    )
    bounds: tuple[float, float] | None = option(
        None,
        help="smallest and largest value an episode can have: needed by --interval bernstein, hcope, anytime; others "
        "ignore it",
        validate_default=True,
    )
    confidence: float = option(0.95, help="confidence level of the intervals", gt=0, lt=1)
    bootstrap: int = option(1000, help="number of bootstrap resamples of the tasks", ge=100, le=1_000_000)
    certificate: bool = option(True, help="first measure the error of each estimator on the policies that made the log")
    by: str = option("", help="also value candidates by group: family, split, task, policy, or a key of the metadata")
    env: str = option(
        "", help="environment of the log, MODULE:ATTR for your own; default: what the log says, if built in"
    )
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself")
    seed: int = option(0, help="seed of resamples and fits", ge=0)
    out: Folder | None = option(None, help="folder for evaluation.json and imagined episodes")
    cache: Path | None = option(
        None,
        help="folder that keeps log-probs and imagined values of hf: and api: policies, to be computed once, not of "
        "module:attr, whose code may change; default: OUT/cache",
    )
    overwrite: bool = option(False, help="replace an evaluation.json that is there")
    engine: str = option(
        "local",
        help="where candidates are scored and imagined: local, ray (of $RAY_ADDRESS, else its own), ray://HOST:PORT",
    )
    jobs: int | None = option(
        None, help="processes that answer for wm and fit it again; default: one a core, from Python 1", ge=1
    )
    workers: int = option(0, help="with --engine ray: processes of a Ray of its own; 0: one a core", ge=0)
    gpus: float = option(0.0, help="with --engine ray: GPUs, or the share of one, that each candidate takes", ge=0)

    @property
    def cache_folder(self) -> Path | None:
        return self.cache or (self.out / "cache" if self.out is not None else None)

    @field_validator("bounds")
    @classmethod
    def _as_the_interval_needs(
        cls, bounds: tuple[float, float] | None, info: ValidationInfo
    ) -> tuple[float, float] | None:
        if bounds is None and (method := info.data.get("interval")) in PROVEN:
            raise ValueError(
                f"--interval {method} needs the smallest and largest value an episode can have, such as 0 1"
            )
        if bounds is not None and not 0 < bounds[1] - bounds[0] < float("inf"):
            raise ValueError("the smallest value must lie below the largest, both finite")
        return bounds


def refuse_idle(config: EvaluateConfig) -> None:
    """Settings of a world model say nothing without one.

    No validator: a benchmark evaluates with world models that it has at hand and names in no setting.
    """
    given = {"--text-model": config.text_model, "--interface": config.interface.removeprefix(AUTO)}
    for flag, value in given.items():
        if value and config.world_model is None:
            raise InputError(f"{flag} {value}: needs --world-model")
