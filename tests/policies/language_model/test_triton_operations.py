"""Kernels say what torch says. Without a GPU Triton interprets them: `make kernels`."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from worldline.policies.language_model.layer_operations import Operations, TorchOperations

GPU = torch.cuda.is_available()
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch's builds for a GPU")
if not GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("neither a GPU nor TRITON_INTERPRET=1, with which kernels run anywhere", allow_module_level=True)
from worldline.policies.language_model.triton_operations import TritonOperations  # noqa: E402  # where there is Triton

WHERE: dict[str, Any] = {"device": "cuda" if GPU else "cpu"}
CLOSE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16 if GPU else torch.float16: {"rtol": 0.02, "atol": 0.02},  # the interpreter has no bfloat16 products
}
SHAPES = {"no queries share keys": (2, 2), "three share": (9, 3), "twenty share": (20, 1)}


def angles(rows: int, time: int, size: int) -> tuple[Tensor, Tensor]:
    turns = torch.rand(rows, time, size // 2, **WHERE).repeat(1, 1, 2) * 7
    return turns.cos(), turns.sin()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("angle_rows", [1, 4])
def test_reading_rotates_and_notes(shape: str, angle_rows: int) -> None:
    torch.manual_seed(0)
    queries, count = SHAPES[shape]
    heads = torch.randn(4, 11, queries + 2 * count, 32, **WHERE)
    cos, sin = angles(angle_rows, 11, 32)
    results = []
    for operations in (TorchOperations(), TritonOperations()):
        keys, values = (torch.zeros(4, count, 11, 32, **WHERE) for _ in range(2))
        results.append([*operations.read(heads.clone(), cos, sin, keys, values), keys, values])
    for by_torch, by_triton in zip(*results, strict=True):
        torch.testing.assert_close(by_triton, by_torch, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("time", [64, 150])
@pytest.mark.parametrize("dtype", CLOSE)
def test_a_step_sees_its_own_token_and_what_is_not_hidden(shape: str, time: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    queries, count = SHAPES[shape]
    heads, (cos, sin) = torch.randn(5, 1, queries + 2 * count, 64, **WHERE).to(dtype), angles(5, 1, 64)
    keys, values = (torch.randn(5, count, time, 64, **WHERE).to(dtype) for _ in range(2))
    hidden = torch.where(torch.rand(5, 1, 1, time, **WHERE) < 0.4, -torch.inf, 0.0).to(dtype)
    hidden[4] = -torch.inf  # a row without a prompt
    at = torch.tensor([time // 2], **WHERE)
    hidden[..., at] = 0.0

    def stepped(operations: Operations) -> list[Tensor]:
        memory = keys.clone(), values.clone()
        return [operations.step(heads.clone(), cos.to(dtype), sin.to(dtype), *memory, at, hidden), *memory]

    for by_torch, by_triton in zip(stepped(TorchOperations()), stepped(TritonOperations()), strict=True):
        torch.testing.assert_close(by_triton, by_torch, **CLOSE[dtype])


def test_a_gate() -> None:
    torch.manual_seed(0)
    gate, up = (torch.randn(7, 1, 300, **WHERE) * 4 for _ in range(2))
    expected = TorchOperations().gated(gate.clone(), up)
    torch.testing.assert_close(TritonOperations().gated(gate.clone(), up.clone()), expected, rtol=1e-5, atol=1e-5)
