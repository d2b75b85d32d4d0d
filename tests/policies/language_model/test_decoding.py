"""Reading on: steps with every tensor in its place say what steps with a growing cache say."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import FalconConfig, FalconForCausalLM

from worldline.policies import PolicyConfig
from worldline.policies.language_model import attention, decoding, hf
from worldline.policies.language_model.decoding import RecordedSteps, Steps, begin, generate, recordable
from worldline.policies.language_model.forward import ROOM, read
from worldline.types import Exchange, Turn

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="records a CUDA graph: needs a GPU")

PROMPTS = [[5, 9, 2, 7, 1, 3], [4, 8], [6, 1, 1, 2]]


@pytest.mark.parametrize("kind", ["sdpa", attention.NAME])
@pytest.mark.parametrize("most", [12, ROOM + 9])
def test_steps_in_place_say_the_same(model: Any, kind: str, most: int) -> None:
    model = copy.deepcopy(model)
    model.set_attn_implementation(kind)
    tokens = torch.randint(0, 40, (most, len(PROMPTS)), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        growing, placed = Steps(model, read(model, PROMPTS)), RecordedSteps(model, read(model, PROMPTS), most)
        rows = torch.arange(len(PROMPTS))
        for place, now in enumerate(tokens):
            if place == 5:
                rows = torch.tensor([2, 0])
                growing.keep(rows)
                placed.keep(rows)
            expected, actual = growing.read(now[rows]), placed.read(now[rows])
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("patience", [0, 4, 99])
def test_a_response_does_not_depend_on_when_others_leave(model: Any, monkeypatch: Any, patience: int) -> None:
    wanted = {"stops": set(range(40)), "max_new_tokens": 16, "temperature": 1.0}
    with torch.inference_mode():
        alone = [generate(model, read(model, [prompt]), [at], **wanted)[0] for at, prompt in enumerate(PROMPTS)]
        monkeypatch.setattr(decoding.RecordedSteps, "patience", patience)
        monkeypatch.setattr("worldline.policies.language_model.decoding.begin", RecordedSteps)
        together = generate(model, read(model, PROMPTS), [0, 1, 2], **wanted)
    assert len({len(response.ids) for response in alone}) > 1
    assert [response.ids for response in together] == [response.ids for response in alone]


def test_nothing_is_recorded_without_a_gpu(model: Any) -> None:
    assert type(begin(model, read(model, PROMPTS), 100)) is Steps


@pytest.mark.parametrize(("kind", "fits"), [("sdpa", True), (attention.NAME, True), ("eager", False)])
def test_only_models_that_take_our_masks_are_recordable(model: Any, kind: str, fits: bool) -> None:
    model = copy.deepcopy(model)
    model.set_attn_implementation(kind)
    assert recordable(model, read(model, PROMPTS)) == fits


def test_models_that_make_their_own_of_a_mask_are_not_recordable() -> None:
    config = FalconConfig(vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, alibi=True)
    falcon = FalconForCausalLM(config).eval()
    assert not recordable(falcon, read(falcon, PROMPTS))


@needs_gpu
@pytest.mark.parametrize("most", [20, ROOM + 40])
def test_replayed_steps_say_the_same(model: Any, most: int) -> None:
    model = copy.deepcopy(model).cuda()
    attention.prepare(model)
    rows = torch.arange(len(PROMPTS), device="cuda")
    with torch.inference_mode():
        growing, recorded = Steps(model, read(model, PROMPTS)), begin(model, read(model, PROMPTS), most)
        assert type(recorded) is RecordedSteps
        for place, now in enumerate(torch.randint(0, 40, (most, len(PROMPTS))).cuda()):
            if place == 9:
                rows = torch.tensor([2, 0], device="cuda")
                growing.keep(rows)
                recorded.keep(rows)
            expected, actual = growing.read(now[rows]), recorded.read(now[rows])
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
        assert recorded._graph is not None


def _wait(module: Any, given: tuple[torch.Tensor, ...]) -> None:
    """Looks at what it is given, as some models do: nothing can be looked at while a graph is recorded."""
    assert given[0].sum().item() == given[0].sum().item()


@needs_gpu
def test_a_model_that_cannot_be_recorded_goes_on(model: Any) -> None:
    model = copy.deepcopy(model).cuda()
    with torch.inference_mode():
        growing, recorded = Steps(model, read(model, PROMPTS)), begin(model, read(model, PROMPTS), 20)
        model.model.layers[1].register_forward_pre_hook(_wait)
        for now in torch.randint(0, 40, (20, len(PROMPTS))).cuda():
            torch.testing.assert_close(recorded.read(now), growing.read(now), rtol=1e-3, atol=1e-4)
        assert recorded._graph is None


@needs_gpu
@pytest.mark.parametrize("gib", [0.0, 1.0])
def test_decisions_on_a_gpu_do_not_depend_on_recording(
    model: Any, tokenizer: Any, make_turn: Callable[..., Turn], monkeypatch: Any, gib: float
) -> None:
    policy = hf.from_model(copy.deepcopy(model).cuda(), tokenizer, PolicyConfig(cache_gib=gib, max_new_tokens=12))
    turns = [make_turn(seed=at, goal=f"find egg {at}") for at in range(5)]
    longer = [
        make_turn(seed=at, goal=f"find egg {at}", history=(Exchange("You see a egg 1.", "look"),)) for at in range(5)
    ]
    recorded = [policy.act(turns), policy.act(longer)]
    monkeypatch.setattr(decoding, "LEAST", 1000)
    policy.forget()
    growing = [policy.act(turns), policy.act(longer)]
    assert [[d.token_ids for d in step] for step in recorded] == [[d.token_ids for d in step] for step in growing]
