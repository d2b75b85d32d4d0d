"""Grouped-query attention behind a cache without copying keys and values for each query head.

transformers repeats keys and values for every query head that shares them, at every layer and for every token, because
torch's masked kernels want equally many heads on both sides. Stacking the query heads of a group as further queries of
their key head gives the same sums, and copies nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "worldline"


def prepare(model: Any) -> None:
    """Make `model` use this attention if it uses torch's and its query heads share keys."""
    config = model.config.get_text_config()
    heads, shared = (getattr(config, f"num_{kind}_heads", None) for kind in ("attention", "key_value"))
    if _torchs(model.config) and _torchs(config) and heads and shared and shared < heads:
        model.set_attn_implementation(NAME)


def masked_by_torch(model: Any) -> bool:
    """Whether attention takes a boolean mask unchanged."""
    return model.config.get_text_config()._attn_implementation in ("sdpa", NAME)


def causal_mask(model: Any, device: torch.device) -> Tensor | None:
    """What to give `model` as the mask of prompts from their first token on, with nothing hidden.

    A mask of one entry stands for the causal one in this attention: transformers would build it while a graph is
    recorded, and torch's fastest kernel wants none.
    """
    ours = model.config.get_text_config()._attn_implementation == NAME
    return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device) if ours else None


def _torchs(config: Any) -> bool:
    return bool(config._attn_implementation == "sdpa")


@contextmanager
def without_plans() -> Iterator[None]:
    """Without cuDNN's attention: it makes a plan for every new length, and behind a cache every token is one."""
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # torch gives it no types
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **how: Any
) -> tuple[Tensor, None]:
    """Query (B, H, N, D), key and value (B, H / groups, T, D), mask (B, 1, N, T) to (B, N, H, D)."""
    groups: int = getattr(module, "num_key_value_groups", 1)
    batch, heads, new, size = query.shape
    if attention_mask is not None and attention_mask.shape[-2:] == (1, 1) and new == key.shape[2] > 1:
        attention_mask = None
    one_mask = attention_mask is not None and attention_mask.shape[1] == 1
    plain = value.shape[-1] == size and all(how.get(name) is None for name in ("position_bias", "softcap", "s_aux"))
    if groups == 1 or new == key.shape[2] or not plain or attention_mask is None or not one_mask:
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **how)
        return attended
    stacked = query.reshape(batch, heads // groups, groups * new, size)
    mask = attention_mask.expand(-1, -1, groups, -1) if new == 1 else attention_mask.repeat(1, 1, groups, 1)
    dropout, scale = how.get("dropout", 0.0), how.get("scaling")
    attended_groups = F.scaled_dot_product_attention(stacked, key, value, mask, dropout, scale=scale)
    return attended_groups.reshape(batch, heads, new, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
