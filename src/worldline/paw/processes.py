"""The processes of a training run: one, or as many as `accelerate launch` starts, with whole weights or shards of them.

accelerate decides how they share the work; this file makes sure that they do. Processes that would not see one another,
and engines that the training loop cannot drive, are refused before anything is written. accelerate leaves FSDP out on a
CPU; here it is FSDP2 there too, so that a sharded run can be rehearsed without a GPU.
"""

import os
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, fsdp2_prepare_model
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from worldline.types import InputError

_WHOLE = (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU)
"""Ways to run that leave every process with all the weights."""


def join(device: str, *, bf16: bool) -> Accelerator:
    """This process's accelerator, together with all others that were launched; `device` as `--rollout.device`."""
    no_gpu = device == "auto" and not torch.accelerator.is_available()
    accelerator = Accelerator(mixed_precision="bf16" if bf16 else "no", cpu=device == "cpu" or no_gpu)
    _check_all_joined(device, accelerator.num_processes, int(os.environ.get("WORLD_SIZE", "1")))
    state = accelerator.state
    wants_shards = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if wants_shards and state.distributed_type == DistributedType.MULTI_CPU:
        state.fsdp_plugin = FullyShardedDataParallelPlugin()
        PartialState().distributed_type = state.distributed_type = DistributedType.FSDP
        if bf16:
            state.fsdp_plugin.set_mixed_precision("bf16")
    _check(accelerator)
    if is_sharded(accelerator) and bf16:
        # accelerate would round log-probabilities and summed gradients to bf16 too.
        policy = state.fsdp_plugin.mixed_precision_policy
        state.fsdp_plugin.mixed_precision_policy = replace(policy, output_dtype=None, reduce_dtype=torch.float32)
    return accelerator


def is_sharded(accelerator: Accelerator) -> bool:
    """Whether a process holds only a part of the weights."""
    return accelerator.distributed_type not in _WHOLE


def placed(model: Any, accelerator: Accelerator) -> Any:
    """A model that is not trained, on this process's device; sharded where the learner is.

    Under `cpu_ram_efficient_loading` only the first process has weights to begin with: sharding hands them out.
    """
    return fsdp2_prepare_model(accelerator, model) if is_sharded(accelerator) else model.to(accelerator.device)


def reshard(model: Any) -> None:
    """Let go of the weights that were gathered for a pass without gradients: FSDP2 keeps some until a backward pass."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local_part(weight: Tensor) -> Tensor:
    """What this process holds of a weight."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


def everywhere(truth: bool, accelerator: Accelerator) -> bool:
    """Whether it is true in every process. All must call this."""
    doubts = torch.tensor(0.0 if truth else 1.0, device=accelerator.device)
    return float(accelerator.reduce(doubts, reduction="sum")) == 0


def _check_all_joined(device: str, joined: int, launched: int) -> None:
    if joined != launched:
        raise InputError(
            f"--rollout.device {device}: {launched} processes were launched and do not see one another: each would "
            "train alone in the same folder; launch one, or name the device that all of them have"
        )


def _check(accelerator: Accelerator) -> None:
    kind = accelerator.distributed_type
    if kind == DistributedType.FSDP and not accelerator.is_fsdp2:
        raise InputError("accelerate: FSDP 1 is not supported: launch with --fsdp_version 2 (fsdp_version: 2)")
    if kind not in (*_WHOLE, DistributedType.FSDP):
        raise InputError(
            f"accelerate: {kind.value} steps the optimizer by itself, which this training cannot follow: "
            "launch with --use_fsdp --fsdp_version 2, which shards as ZeRO-3 does"
        )
