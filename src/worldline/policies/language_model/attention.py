"""Attention that transformers has not: grouped queries behind a cache, and sequences one after another in one row.

transformers repeats keys and values for every query head that shares them, at every layer and for every token, because
torch's masked kernels want equally many heads on both sides. Stacking the query heads of a group as further queries of
their key head gives the same sums, and copies nothing.

A packed row holds many sequences, and each token sees its own. Where a mask would stand, such a row has the places at
which its sequences begin. On a GPU in half precision torch's kernel for lengths that vary reads them all at once;
elsewhere each sequence is read on its own. No mask of length x length is made.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import accumulate, pairwise
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


def prepare_packing(model: Any) -> bool:
    """Make `model` read packed rows; False where its attention is not torch's."""
    config = model.config.get_text_config()
    if _torchs(model.config) and _torchs(config):
        model.set_attn_implementation(NAME)
    return bool(config._attn_implementation == NAME)


def packed_mask(lengths: Sequence[int]) -> Tensor:
    """What to give a prepared model as the mask of one row of sequences of these lengths.

    It stays on the CPU, whatever the model's device: kernels want the longest length as a number.
    """
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)[None, None, None]


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
    if attention_mask is not None and attention_mask.dtype == torch.int32:
        return _attend_each(module, query, key, value, attention_mask.flatten(), **how), None
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


def _attend_each(module: Any, query: Tensor, key: Tensor, value: Tensor, starts: Tensor, **how: Any) -> Tensor:
    """Causal attention within each sequence of one row, query (1, H, T, D), to (1, T, H, D)."""
    bounds = starts.tolist()
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    kernel = _varlen_kernel(query.device, dtype)
    if kernel is not None:
        longest = max(end - start for start, end in pairwise(bounds))
        rows = (states[0].transpose(0, 1).to(dtype) for states in (query, key, value))
        on_device = starts.to(query.device, non_blocking=True)
        shared = key.shape[1] < query.shape[1]
        attended: Tensor = kernel(
            *rows,
            on_device,
            on_device,
            longest,
            longest,
            scale=how.get("scaling"),
            window_size=(-1, 0),
            enable_gqa=shared,
        )
        return attended[None]
    parts = [
        sdpa_attention_forward(module, *(states[:, :, start:end] for states in (query, key, value)), None, **how)[0]
        for start, end in pairwise(bounds)
    ]
    return torch.cat(parts, dim=1)


def _varlen_kernel(device: torch.device, dtype: torch.dtype) -> Callable[..., Any] | None:
    """torch's attention over lengths that vary, where it runs; that of older versions is called otherwise."""
    half = dtype in (torch.bfloat16, torch.float16)
    if device.type != "cuda" or not half or find_spec("torch.nn.attention.varlen") is None:
        return None
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn if "window_size" in inspect.signature(varlen_attn).parameters else None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
