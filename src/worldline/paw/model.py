"""The policy in training: a causal LM that computes only the tokens a loss needs, and PPO's critic.

`Learner.forward` is the whole forward pass, head included, so that whatever accelerate wraps around it (autocast, DDP,
FSDP) sees all of it. Weights are kept in float32; autocast does bf16. Dropout is off: a ratio between two
passes must be 1 where nothing has changed.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn

from worldline.config import Config, option
from worldline.paw import quantization
from worldline.paw.batches import Batch
from worldline.paw.logprobs import TokenStats, token_stats
from worldline.policies.language_model.attention import packed_mask, prepare_packing
from worldline.policies.language_model.checkpoint import DATA_ONLY, locate
from worldline.policies.language_model.forward import shares_prefix
from worldline.types import InputError


class LearnerConfig(Config):
    """Which weights are trained, and how activations are kept."""

    lora: int = option(0, help="rank of LoRA adapters; 0: all weights are trained", ge=0)
    lora_alpha: float = option(32.0, help="LoRA's scale", gt=0)
    gradient_checkpointing: bool = option(False, help="recompute activations in the backward pass: slower, smaller")
    quantize: Literal["4bit"] | None = option(
        None, help="keep the weights under the adapters in 4 bits (QLoRA; needs --learner.lora and worldline[bnb])"
    )
    optimizer: Literal["adamw", "adamw8bit"] = option(
        "adamw", help="adamw8bit: AdamW with its moments in 8 bits (needs worldline[bnb])"
    )
    critic: Literal["shared", "own"] = option("shared", help="PPO's value head: on the policy's states, or on its own")


class Learner(nn.Module):
    """A causal LM, with a critic for PPO."""

    def __init__(self, lm: Any, critic: nn.Module | None = None, *, adapted: bool = False) -> None:
        """`adapted`: `lm` is peft's wrapping of a model with adapters in it."""
        super().__init__()
        self.lm = lm
        self.critic = critic
        self.adapted = adapted
        self._no_split_modules = self.plain._no_split_modules  # where accelerate looks for the layers to shard
        _check_head(self.plain)

    @property
    def plain(self) -> Any:
        """The transformers model, under the adapters if there are any."""
        return self.lm.get_base_model() if self.adapted else self.lm

    def tie_weights(self) -> None:
        """Make embedding and head one tensor again where they are: accelerate calls this after it has sharded them."""
        self.plain.tie_weights()

    def forward(self, batch: Batch, *, temperature: float = 1.0, entropy: bool = False) -> dict[str, Tensor]:
        """`logprob` and `entropy` of the response tokens, `world` of the observation tokens, the critic's `value`.

        All are float32 and flat, in the batch's order; a batch without targets gives empty ones, still on the graph.
        """
        states = _states(self.plain.get_decoder(), batch)
        acting = states[batch.action_at]
        action = self._stats(acting, batch.action, temperature, entropy)
        result = {"logprob": action.logprob, "world": self._stats(states[batch.world_at], batch.world).logprob}
        if action.entropy is not None:
            result["entropy"] = action.entropy
        if self.critic is not None:
            result["value"] = self.critic(batch, acting).float()
        return result

    def _stats(self, states: Tensor, targets: Tensor, temperature: float = 1.0, entropy: bool = False) -> TokenStats:
        head = self.plain.get_output_embeddings()
        return token_stats(states, head.weight, targets, bias=head.bias, temperature=temperature, entropy=entropy)


class SharedCritic(nn.Module):
    """A value head on the policy's own states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.head = _zero_head(width)

    def forward(self, batch: Batch, acting: Tensor) -> Tensor:  # (actions,)
        return self.head(acting.to(self.head.weight.dtype))[:, 0]  # type: ignore[no-any-return]  # a module's call is Any to torch


class OwnCritic(nn.Module):
    """A value head on a backbone of its own, which starts as a copy of the policy's."""

    def __init__(self, decoder: nn.Module, width: int) -> None:
        super().__init__()
        self.decoder = copy.deepcopy(decoder).requires_grad_(True)
        self.head = _zero_head(width)

    def forward(self, batch: Batch, acting: Tensor) -> Tensor:  # (actions,)
        states = _states(self.decoder, batch)
        return self.head(states[batch.action_at].to(self.head.weight.dtype))[:, 0]  # type: ignore[no-any-return]  # a module's call is Any to torch


def load(path: str, **quantized: Any) -> tuple[Any, Any]:
    """The causal LM and the tokenizer of a checkpoint folder or hub id; `quantized` as `quantization.four_bit` says."""
    where = locate(path, f"--model {path}")
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **DATA_ONLY)
            lm = transformers.AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32, **DATA_ONLY, **quantized)
            quantization.keep_as_loaded(lm)
            return lm, tokenizer
    except (OSError, ValueError) as error:
        raise InputError(f"--model {path}: not a causal LM that transformers can load: {_line(error)}") from None


def read_packed(lm: Any) -> None:
    """Make a loaded causal LM read packed rows; InputError where it cannot. Its copies will read them too."""
    if not shares_prefix(lm) or not prepare_packing(lm):
        raise InputError(
            f"--update.packing: {type(lm).__name__} has layers other than full attention, or one that is not torch's: "
            "leave packing off"
        )


def wrap(lm: Any, config: LearnerConfig, *, critic: bool = False, seed: int = 0) -> Learner:
    """A loaded causal LM as a learner: adapters, critic and checkpointing as the config says."""
    torch.manual_seed(seed)  # adapters and critics are drawn
    value = _critic(lm, config) if critic else None
    if config.lora:
        from peft import LoraConfig, get_peft_model

        lm = get_peft_model(lm, LoraConfig(r=config.lora, lora_alpha=config.lora_alpha, target_modules="all-linear"))
    learner = Learner(lm, value, adapted=bool(config.lora)).eval()
    for module in learner.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if config.gradient_checkpointing:
        learner.train()  # transformers checkpoints in training mode only
        learner.plain.gradient_checkpointing_enable({"use_reentrant": False})
    return learner


def frozen_copy(learner: Learner, dtype: torch.dtype) -> Learner:
    """The reference policy: a frozen copy of the learner without its critic."""
    return Learner(copy.deepcopy(learner.plain).to(dtype)).eval().requires_grad_(False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars."""
    shown = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.logging.enable_progress_bar()


def _states(decoder: Any, batch: Batch) -> Tensor:  # (sequences * length, width)
    apart: dict[str, Tensor] = {}
    if batch.lengths:
        places = torch.cat([torch.arange(length) for length in batch.lengths])[None].to(batch.tokens.device)
        apart = {"position_ids": places, "attention_mask": packed_mask(batch.lengths)}
    return decoder(input_ids=batch.tokens, use_cache=False, **apart).last_hidden_state.flatten(0, 1)  # type: ignore[no-any-return]  # transformers has no types


def _critic(lm: Any, config: LearnerConfig) -> nn.Module:
    width = lm.get_output_embeddings().weight.shape[1]
    return SharedCritic(width) if config.critic == "shared" else OwnCritic(lm.get_decoder(), width)


def _zero_head(width: int) -> nn.Linear:
    """Starts at 0: an untrained critic that predicts 0 is better than one that predicts noise."""
    head = nn.Linear(width, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def _check_head(lm: Any) -> None:
    """A few families rescale or cap their logits after the head; those would get wrong probabilities here."""
    text = lm.config.get_text_config()
    changed = {"final_logit_softcapping": None, "logit_scale": 1.0, "logits_scaling": 1.0}
    for name, harmless in changed.items():
        if getattr(text, name, harmless) not in (harmless, None):
            raise InputError(
                f"{type(lm).__name__} changes its logits after the head ({name}): training cannot follow it"
            )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
