"""The verbs from Python: `worldline.collect`, `sft`, `train`, `fit`, `evaluate`, `compare`, `report`, `read`.

Settings are those of the command line, by the same names, checked in the same way. What is returned has a repr that
says the result, and `_repr_html_` for notebooks.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, Unpack

from worldline.config import shortened, validate
from worldline.types import InputError, Policy, Trajectory

if TYPE_CHECKING:
    from worldline.adwm.fit import Fitted
    from worldline.collect import Collection
    from worldline.comparison import LogComparison
    from worldline.evaluate import Evaluation, Extra
    from worldline.hub import Pulled, Pushed
    from worldline.paw.train import Trained
    from worldline.policies import PolicySource
    from worldline.report.page import Report
    from worldline.sft import Cloned

PathLike = Path | str
Paths = Sequence[PathLike] | PathLike


class PolicySettings(TypedDict, total=False):
    """How a language model or an API plays."""

    prompt: Literal["auto", "transcript", "plain", "paper", "react"]
    history: int | Literal["all"] | None
    mode: Literal["generate", "choose"]
    temperature: float
    max_prompt_tokens: int
    max_new_tokens: int | None
    dtype: Literal["float32", "bfloat16", "float16"]
    device: str
    batch_tokens: int
    cache_gib: float
    keep_prompts: bool
    api_timeout: float
    api_retries: int
    api_backoff: float
    api_concurrency: int | None
    tokenizer: str | None
    top_logprobs: int


class CollectSettings(PolicySettings, total=False):
    """As `worldline collect --help` has them."""

    data: PathLike | None
    options: Mapping[str, Any]
    split: str
    tasks: str | None
    episodes: int
    epsilon: float
    name: str
    seed: int
    batch_size: int
    max_steps: int | None
    engine: str
    workers: int
    gpus: float
    out: PathLike | None
    resume: bool
    overwrite: bool


class SftSettings(TypedDict, total=False):
    """As `worldline sft --help` has them."""

    model: str
    data: PathLike | None
    options: Mapping[str, Any]
    split: str
    policies: Sequence[str]
    episodes: int
    noise: float
    only_success: bool
    target: Literal["action", "observation", "both"]
    reading: float | None
    outcome: bool
    prompt: Literal["transcript", "plain", "paper", "react"]
    history: int | None
    context: int
    vocabulary: int
    epochs: float
    learning_rate: float | None
    batch_tokens: int
    lora: int
    checkpoints: int
    dtype: Literal["float32", "bfloat16"]
    precision: Literal["auto", "fp32", "bf16"]
    device: str
    seed: int
    resume: bool
    overwrite: bool


class TrainSettings(TypedDict, total=False):
    """As `worldline train --help` has them; the parts (`rollout`, `update`, ...) are mappings."""

    algo: Literal["grpo", "gigpo", "rloo", "ppo"]
    wm: Literal["paw", "mae", "ce", "echo", "off"]
    preset: Literal["textbook", "verl_agent"]
    data: PathLike | None
    options: Mapping[str, Any]
    split: str
    updates: int
    groups: int
    group_size: int
    refill: int
    max_steps: int | None
    batch_size: int
    most_halted: float
    precision: Literal["fp32", "bf16"]
    checkpoint_every: int
    keep_checkpoints: int
    track: Literal["trackio", "wandb"] | None
    seed: int
    resume: bool
    overwrite: bool
    rollout: PolicySettings
    server: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    learner: Mapping[str, Any]
    update: Mapping[str, Any]
    credit: Mapping[str, Any]
    world: Mapping[str, Any]


class FitSettingsOfLog(TypedDict, total=False):
    """As `worldline fit --help` has them."""

    preset: Literal["small", "base", "paper"]
    members: int
    latent: int | None
    epochs: int | None
    batch: int | None
    rate: float | None
    text_steps: int
    kernel_steps: int
    rivals: bool
    left_out: bool
    replayed_episodes: int
    seed: int
    device: str
    jobs: int | None
    resume: bool
    overwrite: bool


class EvaluateSettings(PolicySettings, total=False):
    """As `worldline evaluate --help` has them."""

    log: Required[Paths]
    policy: Sequence[str]
    epsilon: Sequence[float] | float
    estimators: Sequence[str]
    world_model: PathLike | None
    interface: Literal["auto", "text", "soft", "distilled"]
    text_model: str
    rollouts: int | None
    rival_rollouts: int
    imagined_at_once: int
    refit: bool
    refit_estimators: Sequence[str]
    sensitivity: int
    logger: Sequence[str]
    truth: PathLike | None
    gamma: float
    clip: float | None
    critic: Literal["linear", "network"]
    features: str
    interval: Literal["bootstrap", "student-t"] | Literal["bernstein", "hcope", "anytime"]
    bounds: tuple[float, float] | None
    confidence: float
    bootstrap: int
    certificate: bool
    by: str
    env: str
    data: PathLike | None
    options: Mapping[str, Any]
    seed: int
    out: PathLike | None
    cache: PathLike | None
    overwrite: bool
    engine: str
    jobs: int | None
    workers: int
    gpus: float


class CompareSettings(TypedDict, total=False):
    """As `worldline compare --help` has them."""

    policies: Sequence[str]
    baseline: str
    metric: Literal["auto", "success", "return", "score"]
    by: str
    cost: str
    confidence: float
    out: PathLike | None
    overwrite: bool


def collect(env: str, policy: str, **settings: Unpack[CollectSettings]) -> "Collection":
    """Play a policy in an environment; how it did, and the log where `out` is given."""
    from worldline.collect import CollectConfig
    from worldline.collect import collect as work

    return work(validate(CollectConfig, {"env": env, "policy": policy, **settings}))


def sft(source: str, out: PathLike, **settings: Unpack[SftSettings]) -> "Cloned":
    """Clone an environment's expert, or a log, into a language model."""
    from worldline.sft import SftConfig
    from worldline.sft import sft as work

    return work(validate(SftConfig, {"source": source, "out": out, **settings}))


def train(env: str, model: str, out: PathLike, **settings: Unpack[TrainSettings]) -> "Trained":
    """Reinforcement learning of a language agent, with world-model co-training."""
    from worldline.paw.recipe import TrainConfig
    from worldline.paw.train import train as work

    return work(validate(TrainConfig, {"env": env, "model": model, "out": out, **settings}))


def fit(log: Paths, out: PathLike, **settings: Unpack[FitSettingsOfLog]) -> "Fitted":
    """Fit a world model on a log."""
    from worldline.adwm.fit import FitConfig
    from worldline.adwm.fit import fit as work

    return work(validate(FitConfig, {"log": _listed(log), "out": out, **settings}))


def evaluate(
    candidates: "Mapping[str, Policy | PolicySource] | None" = None,
    extra: "Extra | None" = None,
    loggers: "Mapping[str, Policy | PolicySource] | None" = None,
    **settings: Unpack[EvaluateSettings],
) -> "Evaluation":
    """Value, interval and rank of policies from a log; `candidates` and `loggers` are objects, by name.

    `extra` adds estimators: a function of a candidate and the evidence.
    """
    from worldline.evaluate import EvaluateConfig
    from worldline.evaluate import evaluate as work

    _refuse_no_mapping("candidates", candidates)
    _refuse_no_mapping("loggers", loggers)
    return work(validate(EvaluateConfig, dict(settings)), candidates, extra, loggers=loggers)


def compare(log: Paths, **settings: Unpack[CompareSettings]) -> "LogComparison":
    """Logged policies against each other, paired by task."""
    from worldline.comparison import CompareConfig
    from worldline.comparison import compare as work

    return work(validate(CompareConfig, {"log": _listed(log), **settings}))


def report(path: PathLike, out: PathLike | None = None, *, overwrite: bool = False) -> "Report":
    """One HTML file about an evaluation, a comparison, a run, a world model, a log, or a folder of these."""
    from worldline.report.page import write_report

    return write_report(path, out, overwrite=overwrite)


def read(
    log: Paths, *, policies: Sequence[str] | None = None, tasks: Sequence[str] | None = None
) -> Iterator[Trajectory]:
    """The episodes of logs, one after the other, of some policies or tasks if they are named.

    `expert` is that policy at every epsilon, `expert@0.2` at this one.
    """
    from worldline import store

    if policies is not None:
        store.check_policies(_listed(log), policies)
    return store.read(_listed(log), policies=policies, tasks=tasks)


def push_to_hub(
    folder: PathLike, repo: str, *, public: bool = False, licence: str | None = None, endpoint: str | None = None
) -> "Pushed":
    """Put a log or a world model into a new repository of the Hugging Face Hub, private unless it is to be public."""
    from worldline.hub import push_to_hub as work

    return work(folder, repo, public=public, licence=licence, endpoint=endpoint)


def from_hub(
    repo: str, out: PathLike, *, kind: 'Literal["log", "world-model"] | None' = None, endpoint: str | None = None
) -> "Pulled":
    """Download a log or a world model from the Hugging Face Hub into a new folder."""
    from worldline.hub import from_hub as work

    return work(repo, out, kind=kind, endpoint=endpoint)


def _refuse_no_mapping(name: str, given: object) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(
            f"{name}: takes policy objects by name, {{NAME: POLICY}}, got {shortened(given)}: write log=... for logs, "
            "policy=... and logger=... for specifications"
        )


def _listed(paths: Paths) -> list[PathLike]:
    return [paths] if isinstance(paths, Path | str) else list(paths)
