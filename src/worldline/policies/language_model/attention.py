"""Attention behind a cache for models whose query heads share keys: the cache is read as it is, never spread out.

transformers copies keys and values once for every query head that shares them, at every layer and for every token,
because torch's masked kernels want as many of one as of the other. Laying a group's heads behind one another as
further queries of the same key head says the same sums, and nothing is copied.
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
    """Let `model` attend this way where it uses torch's attention and its heads share keys."""
    config = model.config.get_text_config()
    heads, shared = (getattr(config, f"num_{kind}_heads", None) for kind in ("attention", "key_value"))
    if _torchs(model.config) and _torchs(config) and heads and shared and shared < heads:
        model.set_attn_implementation(NAME)


def masked_by_torch(model: Any) -> bool:
    """Whether attention takes a mask of truth values as it is."""
    return model.config.get_text_config()._attn_implementation in ("sdpa", NAME)


def _torchs(config: Any) -> bool:
    return bool(config._attn_implementation == "sdpa")


@contextmanager
def without_plans() -> Iterator[None]:
    """Without cuDNN's attention: it plans anew for every length it meets, and behind a cache that is every token."""
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
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
    one_mask = attention_mask is not None and attention_mask.shape[1] == 1
    plain = value.shape[-1] == size and all(how.get(name) is None for name in ("position_bias", "softcap", "s_aux"))
    if groups == 1 or new == key.shape[2] or not plain or attention_mask is None or not one_mask:
        told: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **how)
        return told
    stacked = query.reshape(batch, heads // groups, groups * new, size)
    mask = attention_mask.expand(-1, -1, groups, -1) if new == 1 else attention_mask.repeat(1, 1, groups, 1)
    dropout, scale = how.get("dropout", 0.0), how.get("scaling")
    seen = F.scaled_dot_product_attention(stacked, key, value, mask, dropout, scale=scale)
    return seen.reshape(batch, heads, new, size).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
