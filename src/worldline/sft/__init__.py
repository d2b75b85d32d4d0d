"""Supervised fine-tuning: an environment's expert, or a log, cloned into a causal language model.

Gives the start policies: a small model from nothing in minutes on a CPU, or any checkpoint, fully or by LoRA.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from worldline import envs, policies, store
from worldline.config import Config, option, positional
from worldline.policies import PolicyConfig
from worldline.policies.encoding import Encoding, save_prompt
from worldline.rollout import Rollout, plan
from worldline.sft.clone import Example, Progress, Schedule, clone
from worldline.sft.examples import examples
from worldline.sft.small import Size, small_model, small_tokenizer
from worldline.types import InputError, Trajectory


class SftConfig(Config):
    """Clone an environment's expert, or the actions of a log, into a causal language model.

    The model is saved as a transformers folder in OUT/model, with a ladder of earlier checkpoints in OUT/checkpoints:
    policies of rising quality.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline sft household --out runs/clone",
        "worldline sft logs/ --model HuggingFaceTB/SmolLM2-135M-Instruct --lora 16 --out runs/smol",
        "worldline collect household --policy hf:runs/clone/model --split unseen",
    )

    source: str = positional(help="an environment (its expert is played) or a folder of logs")
    out: Path = option(help="run folder")
    model: str = option("nano", help="nano, micro or mini: a small new model; else a folder or hub id to start from")
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself")
    split: str = option("", help="which tasks; default: the environment's first split (of a log: all)")
    episodes: int = option(2000, help="demonstrations to play (of a log: to use at most)", ge=1)
    only_success: bool = option(True, help="of a log, clone successful episodes only")
    target: Literal["action", "observation", "both"] = option("action", help="what is learned")
    prompt: Literal["transcript", "plain", "paper", "react"] = option("transcript", help="prompt template")
    history: int | None = option(None, help="past steps in the prompt; default: the template's")
    context: int = option(1024, help="longest sequence in tokens", ge=64)
    vocabulary: int = option(1024, help="tokens of a small model's tokenizer", ge=300)
    epochs: float = option(3.0, help="passes over the demonstrations", gt=0)
    learning_rate: float | None = option(None, help="default 2e-3 for a small model, 1e-4 for LoRA, 2e-5 else", gt=0)
    batch_tokens: int = option(8192, help="tokens per update", ge=64)
    lora: int = option(0, help="rank of LoRA adapters; 0 trains everything", ge=0)
    checkpoints: int = option(5, help="checkpoints along the way, the last one at the end", ge=1)
    dtype: Literal["float32", "bfloat16"] = option("float32", help="precision of the weights")
    seed: int = option(0, help="decides every random draw")
    resume: bool = option(False, help="go on with a run that was interrupted")
    overwrite: bool = option(False, help="start anew in a folder that holds a run")

    @property
    def small(self) -> bool:
        return self.model in ("nano", "micro", "mini")

    @property
    def rate(self) -> float:
        return self.learning_rate or (2e-3 if self.small else 1e-4 if self.lora else 2e-5)
