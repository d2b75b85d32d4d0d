"""Attention of heads that share keys: what transformers' own says, gradients too."""

import copy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tiny_llama import tiny_llama
from worldline.policies.language_model import attention
from worldline.policies.language_model.forward import empty_cache, forward, left_padded, positions

PROMPTS = [[5, 9, 2, 7, 1, 3], [4, 8], [6, 1, 1, 2]]
NEXT = [[3, 7, 2], [9, 9, 1], [2, 5, 6]]


def made(shared: int, kind: str) -> Any:
    model = tiny_llama(40, 48, intermediate_size=64, num_attention_heads=6, num_key_value_heads=shared).eval()
    model.set_attn_implementation(kind)
    return model


def logits_behind(model: Any, read: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of NEXT's first `read` tokens behind the cached prompts, and the gradient in the embeddings."""
    ids, mask = left_padded(PROMPTS, model.device)
    cache = empty_cache(model)
    with torch.no_grad():
        forward(model, ids, mask, positions(mask), cache)
    table = model.get_input_embeddings()
    weight = table.weight.detach().clone().requires_grad_()
    table.weight = torch.nn.Parameter(weight)
    more, new = left_padded([row[:read] for row in NEXT], model.device)
    logits = forward(model, more, torch.cat([mask, new], 1), positions(new) + mask.sum(1, keepdim=True), cache)
    (gradient,) = torch.autograd.grad(logits.logsumexp(-1).sum(), table.weight)
    return logits.detach(), gradient


@pytest.mark.parametrize("shared", [1, 2, 3])
@pytest.mark.parametrize("read", [1, 3])
def test_says_what_eager_attention_says(shared: int, read: int) -> None:
    model = made(shared, "sdpa")
    attention.prepare(model)
    assert model.config._attn_implementation == attention.NAME
    actual, expected = logits_behind(model, read), logits_behind(made(shared, "eager"), read)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_leaves_alone_what_it_is_not_for() -> None:
    single, eager = made(6, "sdpa"), made(2, "eager")
    attention.prepare(single)
    attention.prepare(eager)
    assert [model.config._attn_implementation for model in (single, eager)] == ["sdpa", "eager"]


@pytest.mark.parametrize("how", [{"masks": 6}, {"width": 4}, {"position_bias": 0.5}])
def test_leaves_to_torch_what_it_cannot_do(how: dict[str, Any]) -> None:
    """A mask for each head, values of another size, a bias on the positions: as transformers' own would do it."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 6, 1, 8), torch.randn(2, 2, 5, 8)
    value = torch.randn(2, 2, 5, how.get("width", 8))
    mask = torch.rand(2, how.get("masks", 1), 1, 5) > 0.3
    mask[..., 0] = True
    given = {"position_bias": torch.randn(1, 6, 1, 5)} if "position_bias" in how else {}
    module = SimpleNamespace(num_key_value_groups=3)
    actual, _ = attention._attend(module, query, key, value, mask, scaling=0.3, **given)
    scores = query @ key.repeat_interleave(3, 1).mT * 0.3 + given.get("position_bias", 0.0)
    expected = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value.repeat_interleave(3, 1)
    torch.testing.assert_close(actual, expected.transpose(1, 2))


def test_a_text_model_keeps_its_own_choice() -> None:
    model = made(2, "sdpa")
    inner = copy.deepcopy(model.config)
    inner._attn_implementation = "eager"
    model.config.get_text_config = lambda *args, **kwargs: inner
    attention.prepare(model)
    assert model.config._attn_implementation == "sdpa"
    assert not attention.masked_by_torch(model)


def test_is_not_written_into_checkpoints(tmp_path: Any) -> None:
    model = made(2, "sdpa")
    attention.prepare(model)
    model.save_pretrained(tmp_path)
    assert attention.NAME not in (tmp_path / "config.json").read_text()


def test_leaves_the_choice_of_kernels_as_it_was() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with pytest.raises(ZeroDivisionError), attention.without_plans():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        _ = 1 / 0
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


LENGTHS = (5, 1, 7, 2)


def packed_states(model: Any, lengths: tuple[int, ...] = LENGTHS) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states of one packed row, and of the same sequences each alone; their gradients come with them."""
    torch.manual_seed(3)
    tokens = torch.randint(1, 40, (1, sum(lengths)), device=model.device)
    places = torch.cat([torch.arange(length) for length in lengths])[None].to(model.device)
    mask = attention.packed_mask(lengths)
    decoder = model.get_decoder()
    row = decoder(input_ids=tokens, position_ids=places, attention_mask=mask, use_cache=False).last_hidden_state
    alone = [decoder(input_ids=part, use_cache=False).last_hidden_state for part in tokens.split(lengths, dim=1)]
    return row, torch.cat(alone, dim=1)


def gradients(model: Any, states: torch.Tensor) -> list[torch.Tensor]:
    decoder = model.get_decoder()
    return list(torch.autograd.grad(states.square().sum(), list(decoder.parameters()), retain_graph=True))


@pytest.mark.parametrize("shared", [2, 6])
def test_a_packed_row_is_its_sequences_each_alone(shared: int) -> None:
    model = made(shared, "sdpa").double()
    assert attention.prepare_packing(model)
    row, alone = packed_states(model)
    torch.testing.assert_close(row, alone, rtol=1e-10, atol=1e-12)
    for left, right in zip(gradients(model, row), gradients(model, alone), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10)


def test_packing_wants_torchs_attention() -> None:
    assert not attention.prepare_packing(made(2, "eager"))


@pytest.mark.parametrize("shared", [2, 6])
def test_the_kernel_is_called_as_torch_documents_it(shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for torch's CUDA kernel: (tokens, heads, size) and the places where sequences begin."""

    def kernel(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seq_q: torch.Tensor,
        cu_seq_k: torch.Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float,
        window_size: tuple[int, int],
        enable_gqa: bool,
    ) -> torch.Tensor:
        assert cu_seq_q.dtype == torch.int32
        assert max_q == max_k == max(LENGTHS)
        assert window_size == (-1, 0)
        assert enable_gqa == (key.shape[1] < query.shape[1])
        parts = []
        for start, end in pairwise(cu_seq_q.tolist()):
            q, k, v = (states[start:end].transpose(0, 1)[None] for states in (query, key, value))
            k, v = (states.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v))
            scores = (q @ k.transpose(-1, -2)) * scale
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            parts.append((scores.softmax(-1) @ v)[0].transpose(0, 1))
        return torch.cat(parts)

    model = made(shared, "sdpa")
    attention.prepare_packing(model)
    monkeypatch.setattr(attention, "_varlen_kernel", lambda device, dtype: kernel)
    row, alone = packed_states(model)
    torch.testing.assert_close(row, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch's kernel for lengths that vary needs a GPU")
def test_the_kernel_on_a_gpu_is_each_sequence_alone() -> None:
    sizes = {"intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = tiny_llama(40, 256, **sizes).eval().cuda().bfloat16()
    attention.prepare_packing(model)
    row, alone = packed_states(model, (500, 3, 70, 1, 260))
    torch.testing.assert_close(row.float(), alone.float(), rtol=0.05, atol=0.05)
    for left, right in zip(gradients(model, row), gradients(model, alone), strict=True):
        cosine = torch.cosine_similarity(left.float().flatten(), right.float().flatten(), dim=0)
        assert float(cosine) > 0.999
