"""Attention of heads that share keys: what transformers' own says, gradients too."""

import copy
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
