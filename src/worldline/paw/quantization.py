"""What bitsandbytes saves: a base of 4 bits a weight under LoRA adapters (QLoRA), and AdamW's moments in 8 bits.

Both are options of a single process or of DDP; bitsandbytes is an extra, `worldline[bnb]`, and its absence is one line.
A quantised base stays as it is: adapters are trained on it, and what is saved or plays elsewhere has the base's rounded
weights with the adapters folded in, so it is the policy that was trained. Only a server that gets the adapters alone
(`adapters.py`) puts them on the base that it was started with.
"""

import copy
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from worldline.types import InputError


def check(flag: str) -> None:
    """InputError where bitsandbytes is absent, in the name of the flag that wants it."""
    if find_spec("bitsandbytes") is None:
        raise InputError(f"{flag}: needs bitsandbytes, which is not installed: pip install 'worldline[bnb]'")


def four_bit(device: torch.device, compute: torch.dtype) -> dict[str, Any]:
    """How transformers loads a causal LM in 4-bit normal floats with doubly quantised scales, as QLoRA has it."""
    from transformers import BitsAndBytesConfig

    quantization = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute,
    )
    return {"quantization_config": quantization, "device_map": {"": device}}


def keep_as_loaded(lm: Any) -> None:
    """Forbid bitsandbytes to repack the weights of a model for the processor when it first plays.

    Repacked weights are rounded once more, to bfloat16, and then what plays is not what learns; layers narrower than a
    block of 64 weights cannot be repacked at all.
    """
    for module in lm.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def adamw8bit(groups: list[dict[str, Any]], weight_decay: float) -> torch.optim.Optimizer:
    """AdamW with moments in 8 bits; those of tensors under 4,096 numbers stay in float32."""
    from bitsandbytes.optim import AdamW8bit

    optimizer: torch.optim.Optimizer = AdamW8bit(groups, weight_decay=weight_decay)
    return optimizer


def is_quantised(weight: Tensor) -> bool:
    return getattr(weight, "quant_state", None) is not None


def dequantised(weight: Tensor) -> Tensor:
    """The numbers that a quantised weight stands for; any other tensor as it is."""
    if not is_quantised(weight):
        return weight
    from bitsandbytes.functional import dequantize_4bit

    whole: Tensor = dequantize_4bit(weight.data, weight.quant_state)  # type: ignore[attr-defined]  # is_quantised looked
    return whole


def empty_plain_model(model: Any, dtype: torch.dtype) -> Any:
    """A model of the same shape without quantisation or adapters; its weights are still to be filled in."""
    config = copy.deepcopy(model.config)
    del config.quantization_config
    with torch.random.fork_rng(devices=[]):  # its own weights are drawn, and thrown away
        empty: Any = type(model)(config)
    empty.generation_config = copy.deepcopy(model.generation_config)
    return empty.to(dtype).eval().requires_grad_(False)
