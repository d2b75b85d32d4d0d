"""Supervised fine-tuning: an environment's expert, or a log, cloned into a causal language model.

Gives the start policies: a small model from nothing in minutes on a CPU, or any checkpoint, fully or by LoRA.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import torch
import transformers
from pydantic import ValidationInfo, field_validator, model_validator

from worldline import envs, files, store
from worldline.callable_module import CallableModule
from worldline.config import Config, Folder, option, positional, suggest
from worldline.nearby import nearby
from worldline.notebook import html_table
from worldline.policies import TEMPLATES, Encoder
from worldline.policies.language_model.checkpoint import DATA_ONLY, TrainedWith, fingerprint, locate
from worldline.policies.language_model.checkpoint import save as save_checkpoint
from worldline.policies.language_model.device import usable_device
from worldline.rollout import plan
from worldline.run_folder import Run
from worldline.sft.clone import CloningSchedule, Progress, clone
from worldline.sft.demonstrations import Demonstration, drawn, of_expert, of_log
from worldline.sft.examples import Target, sequences, texts
from worldline.sft.small import SIZES, Size, small_model, small_tokenizer
from worldline.types import InputError, Trajectory, WorldlineError

ADJUSTABLE = ("out", "resume", "overwrite", "checkpoints", "device")
MUON_RATE, READING = 0.01, 0.1
"""For a model made from nothing, chosen by held-out accuracy of its actions at 1.5 million tokens."""


class SftConfig(Config):
    """Clone an environment's expert, or the actions of a log, into a causal language model.

    The model is saved as a transformers folder in OUT/model, with earlier checkpoints in OUT/checkpoints: policies of
    increasing quality.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline sft household --out runs/clone",
        "worldline sft logs/ --policies v1 --no-only-success --out runs/v1",
        "worldline sft logs/ --model HuggingFaceTB/SmolLM2-135M-Instruct --lora 16 --out runs/smol",
        "worldline collect household --policy hf:runs/clone/model --split unseen",
    )

    source: str = positional(help="an environment (its expert is played) or a folder of logs")
    out: Folder = option(help="run folder")
    model: str = option("nano", help="nano, micro or mini: a small new model; else a folder or hub id to start from")
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself")
    split: str = option("", help="which tasks; default: the environment's first split (of a log: all)")
    policies: tuple[str, ...] = option((), help="of a log, only what these did: v3, or v3@0.2 at this epsilon")
    episodes: int = option(
        4000, help="demonstrations to play (of a log: to use at most, drawn from all of it)", ge=1, le=10_000_000
    )
    noise: float = option(
        0.15, help="share of random steps among the expert's: in the context, but not learned", ge=0, lt=1
    )
    only_success: bool = option(
        True, help="of a log, learn from successful episodes only; off with --target observation, unless it is given"
    )
    target: Target = option(
        "action", help="which tokens are learned: action, observation or both; both where `train` with PaW follows"
    )
    reading: float | None = option(
        None,
        help="loss weight of the tokens that are not learned; default 0.1 for a small model with --target action",
        ge=0,
    )
    outcome: bool = option(
        False, help="with --target observation: also learn each step's reward and whether it was the last (wm-text)"
    )
    prompt: Literal["transcript", "plain", "paper", "react"] = option("transcript", help="prompt template")
    history: int | None = option(None, help="past steps in the prompt; default: the template's", ge=0)
    context: int = option(1024, help="longest sequence in tokens", ge=64)
    vocabulary: int = option(1024, help="tokens of a small model's tokenizer", ge=300)
    epochs: float = option(1.25, help="passes over the demonstrations", gt=0)
    learning_rate: float | None = option(None, help="default 5e-3 for a small model, 1e-4 for LoRA, 2e-5 else", gt=0)
    batch_tokens: int = option(2048, help="tokens per update", ge=64)
    lora: int = option(0, help="rank of LoRA adapters; 0 trains everything", ge=0)
    checkpoints: int = option(5, help="checkpoints along the way, the last one at the end", ge=1)
    dtype: Literal["float32", "bfloat16"] = option("float32", help="precision of the weights")
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", help="of the computation; auto: bf16 on a GPU, fp32 on a CPU"
    )
    device: str = option("auto", help="device of the model; auto: a GPU if there is one")
    seed: int = option(0, help="seed of every random draw")
    resume: bool = option(False, help="continue a run that was interrupted")
    overwrite: bool = option(False, help="start anew in a folder that holds a run")

    @model_validator(mode="before")
    @classmethod
    def _failures_are_the_world_too(cls, values: Any) -> Any:
        """A world model learns from every episode."""
        if isinstance(values, dict) and values.get("target") == "observation":
            return {"only_success": False} | values
        return values

    @field_validator("vocabulary")
    @classmethod
    def _of_a_new_model(cls, vocabulary: int, info: ValidationInfo) -> int:
        model = info.data.get("model")
        if model is not None and model not in SIZES:
            raise ValueError(f"--model {model} has a tokenizer of its own: leave it out")
        return vocabulary

    @field_validator("lora")
    @classmethod
    def _of_a_trained_model(cls, lora: int, info: ValidationInfo) -> int:
        model = info.data.get("model")
        if lora and model in SIZES:
            raise ValueError(f"{model} is new: its random weights would stay: give a trained --model, or leave it out")
        return lora

    @property
    def small(self) -> bool:
        return self.model in SIZES

    @property
    def rate(self) -> float:
        return self.learning_rate or (5e-3 if self.small else 1e-4 if self.lora else 2e-5)

    @property
    def read(self) -> float:
        """What is read has no weight of its own where it is learned anyway."""
        if self.reading is not None:
            return self.reading
        return READING if self.small and self.target == "action" else 0.0


@dataclass(frozen=True)
class Cloned:
    """What came out of a cloning run."""

    config: SftConfig
    episodes: int
    parameters: int
    progress: Progress
    seconds: float
    failed: tuple[str, ...] = ()
    """Demonstrations that the environment could not play, and why."""
    lost: int = 0
    """Episodes that did not end well and were left out."""
    not_drawn: int = 0
    """Episodes of a log that --episodes left out."""
    notes: tuple[str, ...] = ()
    """What was wrong in the folder of a resumed run."""

    def _repr_html_(self) -> str:
        shown = ("episodes", "parameters", "updates", "tokens", "loss", "seconds", "model")
        rows = [(name, f"{value:.4g}" if isinstance(value, float) else str(value))
                for name, value in self.summary().items() if name in shown]  # packed lines read better  # fmt: skip
        return html_table(f"cloned {self.config.source}", ("", "value"), rows)

    def summary(self) -> dict[str, Any]:
        return {
            "source": self.config.source,
            "episodes": self.episodes,
            "lost": self.lost,
            "not_drawn": self.not_drawn,
            "parameters": self.parameters,
            "updates": self.progress.step,
            "tokens": self.progress.tokens,
            "loss": self.progress.loss,
            "seconds": self.seconds,
            "failed": list(self.failed),
            "model": str(self.config.out / "model"),
            "checkpoints": [str(path) for path in sorted((self.config.out / "checkpoints").glob("step-*"))],
        }


def sft(
    config: SftConfig,
    gathered: Callable[[int], None] = lambda count: None,
    trained: Callable[[Progress], None] = lambda progress: None,
) -> Cloned:
    """Gather demonstrations, make or load the model, clone, save. The two callbacks watch the two phases."""
    started = time.perf_counter()
    transformers.utils.logging.disable_progress_bar()
    device = usable_device(config.device)
    run = _run(config)
    run.goes_on()
    failed: list[str] = []
    lost: list[str] = []
    shown, not_drawn = _gathered(config, failed, lost, gathered)
    model, tokenizer = _model(config, shown)
    model.to(device)
    entry = TrainedWith(prompt=config.prompt, history=config.history, outcome=config.outcome)
    model.config.worldline = entry.model_dump()
    template = TEMPLATES[config.prompt]
    encoder = Encoder(tokenizer, template, config.context - template.max_new_tokens, config.history)
    examples = sequences(shown, encoder, config.target, config.outcome)
    wrapped = _with_lora(model, config)

    def save(folder: Path) -> None:
        with files.replacing(folder) as partial:
            save_checkpoint(_merged(wrapped), tokenizer, partial)

    with run.opened():
        cloned = clone(
            model,
            examples,
            _schedule(config, device),
            pad=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
            seed=config.seed,
            folder=config.out,
            save=save,
            watch=trained,
        )
        save(config.out / "model")
    count = sum(parameter.numel() for parameter in model.parameters())
    seconds = time.perf_counter() - started
    left_out = tuple(failed), len(lost), not_drawn
    return Cloned(config, len(shown), count, cloned.progress, seconds, *left_out, cloned.notes)


def _run(config: SftConfig) -> Run:
    inputs = {}
    if Path(config.source).exists():
        inputs[config.source] = files.digest(store.shards(config.source))
    if not config.small:
        inputs[config.model] = fingerprint(locate(config.model, f"--model {config.model}"))
    return Run(config, "cloning run", ADJUSTABLE, inputs)


def _schedule(config: SftConfig, device: str) -> CloningSchedule:
    return CloningSchedule(
        config.epochs,
        config.batch_tokens,
        config.rate,
        muon_rate=MUON_RATE if config.small else None,
        reading=config.read,
        half=config.precision == "bf16" or (config.precision == "auto" and device.startswith("cuda")),
        checkpoints=config.checkpoints,
    )


def _gathered(
    config: SftConfig, failed: list[str], lost: list[str], watch: Callable[[int], None]
) -> tuple[list[Demonstration], int]:
    """The demonstrations to learn from, at least one, and how many more a log has; `watch` sees their number grow."""
    there = 0

    def counted() -> Iterator[Demonstration]:
        nonlocal there
        for there, demonstration in enumerate(_demonstrations(config, failed, lost), start=1):
            watch(min(there, config.episodes))
            yield demonstration

    shown = drawn(counted(), config.episodes, config.seed)
    if failed and not shown:
        raise WorldlineError(f"every demonstration failed, the first was {failed[0]}")
    if not shown:
        raise InputError(f"{config.source}: no successful episode to clone; --no-only-success takes all")
    return shown, there - len(shown)


def _demonstrations(config: SftConfig, failed: list[str], lost: list[str]) -> Iterator[Demonstration]:
    """The log's episodes, or the expert's, played on demand; a failed demonstration teaches nothing."""
    if Path(config.source).exists():
        if config.policies:
            store.check_policies(config.source, config.policies)
        splits, policies = [config.split] if config.split else None, config.policies or None
        logged = store.read(Path(config.source), splits=splits, policies=policies)
        return _worth_learning(logged, config.only_success, lost)
    if config.policies:
        raise InputError(f"--policies: only of a log: in {config.source} the expert is played")
    if ":" not in config.source and config.source not in envs.WORLDS:
        near = nearby(config.source) if "/" in config.source else suggest(config.source, list(envs.WORLDS))
        raise InputError(f"unknown environment '{config.source}', and no such folder{near}")
    world = envs.load(config.source, config.data, config.options)
    split = config.split or world.splits()[0]
    episodes = plan(world, split, config.episodes, seed=config.seed, run="expert")
    return of_expert(world, episodes, config.noise, failed, lost)


def _worth_learning(logged: Iterable[Trajectory], only_success: bool, lost: list[str]) -> Iterator[Demonstration]:
    for episode in logged:
        if episode.success or not only_success:
            yield of_log(episode)
        else:
            lost.append(episode.id)


def _model(config: SftConfig, shown: list[Demonstration]) -> tuple[Any, Any]:
    """The model to train and its tokenizer."""
    if config.small:
        tokenizer = small_tokenizer(texts(shown), config.vocabulary)
        model = small_model(tokenizer, cast(Size, config.model), config.context, config.seed)
    else:
        path = locate(config.model, f"--model {config.model}")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **DATA_ONLY)
            dtype = getattr(torch, config.dtype)
            model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **DATA_ONLY)
        except (OSError, ValueError) as error:
            raise InputError(f"--model {config.model}: cannot be loaded: {str(error).splitlines()[0]}") from None
    return model, tokenizer


def _with_lora(model: Any, config: SftConfig) -> Any:
    """The model with adapters put into it (its own weights are then frozen), or the model itself."""
    if not config.lora:
        return model
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(config.seed)  # adapters are drawn
    adapters = LoraConfig(r=config.lora, lora_alpha=2 * config.lora, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, adapters)


def _merged(wrapped: Any) -> Any:
    """A plain transformers model: adapters, where there are any, folded into a copy of the weights."""
    if not hasattr(wrapped, "merge_and_unload"):
        return wrapped
    import copy

    return copy.deepcopy(wrapped).merge_and_unload()


sys.modules[__name__].__class__ = CallableModule  # worldline.sft(...)
