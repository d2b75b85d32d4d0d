"""Sampling in memory that stays gives the responses that growing caches give, from the first batch to the last."""

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM, FalconConfig, FalconForCausalLM

from worldline.policies import PolicyConfig
from worldline.policies.language_model import attention, hf, in_place
from worldline.policies.language_model.decoding import Response, Sampling, generate
from worldline.policies.language_model.forward import Prefix, read
from worldline.policies.language_model.in_place import InPlaceSampler, sampler_of, suits
from worldline.policies.language_model.stack import TransformersStack
from worldline.policies.language_model.stepper import stepping_time
from worldline.types import Exchange, Turn

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="records CUDA graphs: needs a GPU")
STOPS = {1, 2, 3, 4, 5, 6, 7, 8}


def prompts(count: int, longest: int, seed: int) -> list[list[int]]:
    """Some of them equal."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    made = [torch.randint(0, 40, (length,), generator=generator).tolist() for length in lengths]
    return made + made[: count // 2]


def assert_same(actual: list[Response], expected: list[Response], tolerance: float = 1e-4) -> None:
    assert [response.ids for response in actual] == [response.ids for response in expected]
    for one, other in zip(actual, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=tolerance)
        assert one.entropies == pytest.approx(other.entropies, abs=tolerance)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_responses_are_those_of_growing_caches(model: Any, own: bool, temperature: float) -> None:
    sampler = InPlaceSampler(model)
    if own:
        sampler._stack = TransformersStack(model)
    with torch.inference_mode():
        for count, longest, most in ((3, 20, 12), (1, 70, 1), (40, 150, 100), (2, 9, 40), (5, 60, 4)):
            given, seeds = prompts(count, longest, seed=count), list(range(count + count // 2))
            how = Sampling(STOPS, most, temperature)
            expected = generate(model, read(model, given), seeds, how)
            assert_same(sampler.respond(given, seeds, how), expected)
            assert_same(sampler.respond_behind(read(model, given), seeds, how), expected)


def test_rows_that_have_ended_leave_and_the_others_go_on(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "BLOCK", 4)
    given, seeds, how = prompts(16, 30, seed=1), list(range(24)), Sampling(STOPS, 60, 1.0)
    sampler, sizes = InPlaceSampler(model), []
    monkeypatch.setattr(
        InPlaceSampler, "_stepper", _counting(InPlaceSampler._stepper, lambda rows, *_: sizes.append(rows))
    )
    with torch.inference_mode():
        expected = generate(model, read(model, given), seeds, how)
        assert_same(sampler.respond(given, seeds, how), expected)
    assert len({len(response.ids) for response in expected}) > 4
    assert len(sizes) > 1
    assert sizes == sorted(sizes, reverse=True)


def _counting(method: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def counted(self: Any, *given: Any) -> Any:
        note(*given)
        return method(self, *given)

    return counted


def test_a_prefix_stays_as_it_is(model: Any) -> None:
    given, how = prompts(4, 20, seed=3), Sampling(STOPS, 10, 1.0)
    with torch.inference_mode():
        prefix = read(model, given)
        before = [layer.keys.clone() for layer in prefix.cache.layers]
        sampler = InPlaceSampler(model)
        first, second = (sampler.respond_behind(prefix, list(range(6)), how) for _ in range(2))
        assert_same(first, second, tolerance=0.0)
        assert all(torch.equal(old, layer.keys) for old, layer in zip(before, prefix.cache.layers, strict=True))


def test_responses_come_as_they_end_and_a_batch_may_be_left(model: Any) -> None:
    given, seeds, how = prompts(16, 30, seed=1), list(range(24)), Sampling(STOPS, 60, 1.0)
    sampler = InPlaceSampler(model)
    with torch.inference_mode():
        expected = generate(model, read(model, given), seeds, how)
        batches = list(sampler.stream(given, seeds, how))
        left = sampler.stream(given, seeds, how)
        next(left)
        assert_same(sampler.respond(given, seeds, how), expected)
        with pytest.raises(RuntimeError, match="another batch was begun before the last response of this one"):
            next(left)
    longest = [max(len(response.ids) for response in batch.values()) for batch in batches]
    assert len(batches) > 3
    assert longest == sorted(longest)
    assert sorted(row for batch in batches for row in batch) == seeds


def test_equal_prompts_are_read_once(model: Any) -> None:
    sampler, shapes = InPlaceSampler(model), []
    with torch.inference_mode():
        sampler.respond([[1, 2, 3]] * 9, list(range(9)), Sampling(STOPS, 3, 1.0))
        shapes = list(sampler._readers)
    assert shapes == [(1, 64)]


def test_weights_that_change_in_place_are_seen_and_recordings_kept(model: Any) -> None:
    trained, given, how = copy.deepcopy(model), prompts(3, 20, seed=4), Sampling(STOPS, 12, 1.0)
    sampler = InPlaceSampler(trained)
    with torch.inference_mode():
        sampler.respond(given, [0, 1, 2, 3], how)
        kept = list(sampler._steppers.values())
    with torch.no_grad():
        for weight in trained.parameters():
            weight.mul_(0.7)
    with torch.inference_mode():
        assert_same(
            sampler.respond(given, [0, 1, 2, 3], how), generate(trained, read(trained, given), [0, 1, 2, 3], how)
        )
        assert list(sampler._steppers.values()) == kept
        for weight in trained.parameters():
            weight.data = weight.data.clone()
        sampler.respond(given, [0, 1, 2, 3], how)
        assert list(sampler._steppers.values()) != kept  # they lie elsewhere now


def test_memory_that_was_outgrown_is_free_at_once(model: Any) -> None:
    sampler = InPlaceSampler(model)
    gc.disable()  # a cycle would keep it until the garbage is collected
    try:
        with torch.inference_mode():
            sampler.respond([[1, 2, 3]], [0], Sampling(STOPS, 3, 1.0))
            old = [weakref.ref(kept) for kept in (*sampler._readers.values(), *sampler._steppers.values())]
            longer = [[at, *[1, 2, 3] * 80] for at in range(20)]
            sampler.respond(longer, list(range(20)), Sampling(STOPS, 3, 1.0))
        assert [kept() for kept in old] == [None, None]
    finally:
        gc.enable()


def test_what_is_no_number_does_not_stay(model: Any) -> None:
    given, how = prompts(3, 20, seed=5), Sampling(STOPS, 8, 1.0)
    sampler = InPlaceSampler(model)
    with torch.inference_mode():
        prefix = read(model, given)
        expected = sampler.respond_behind(prefix, [0, 1, 2, 3], how)
        broken = Prefix(copy.deepcopy(prefix.cache), prefix.mask, prefix.logits * torch.nan)
        for layer in broken.cache.layers:
            layer.values.mul_(torch.nan)
        assert any(value != value for value in sampler.respond_behind(broken, [0, 1, 2, 3], how)[0].logprobs)
        assert_same(sampler.respond_behind(prefix, [0, 1, 2, 3], how), expected, tolerance=0.0)


def test_few_shapes_stay(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "MOST_KEPT", 2)
    sampler = InPlaceSampler(model)
    with torch.inference_mode():
        sampler.respond(prompts(20, 300, seed=0), list(range(30)), Sampling(STOPS, 2, 1.0))
        for longest in (10, 100, 200, 100):
            sampler.respond([[1] * longest], [0], Sampling(STOPS, 2, 1.0))
    assert [length for _, length in sampler._readers] == [256, 128]


@pytest.mark.parametrize(("kind", "fits"), [("sdpa", True), (attention.NAME, True), ("eager", False)])
def test_only_models_that_take_our_masks_suit(model: Any, kind: str, fits: bool) -> None:
    model = copy.deepcopy(model)
    model.set_attn_implementation(kind)
    assert suits(model) == fits
    assert sampler_of(model) is None  # on a CPU growing caches serve


def test_models_that_make_their_own_of_masks_or_logits_do_not_suit() -> None:
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    assert not suits(FalconForCausalLM(FalconConfig(**sizes, alibi=True)).eval())
    scaled = CohereConfig(
        **sizes, intermediate_size=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, logit_scale=4.0
    )
    assert not suits(CohereForCausalLM(scaled).eval())


@needs_gpu
@pytest.mark.parametrize("own", [True, False])
def test_replayed_responses_are_those_of_growing_caches(model: Any, own: bool) -> None:
    model = copy.deepcopy(model).cuda()
    attention.prepare(model)
    sampler = sampler_of(model)
    assert sampler is not None
    if own:
        sampler._stack = TransformersStack(model)
    with torch.inference_mode():
        for round_ in range(4):  # the first runs, the second is recorded, the rest replay
            for count, longest, most in ((3, 20, 12), (40, 150, 70)):
                given, seeds = prompts(count, longest, seed=round_), list(range(count + count // 2))
                how = Sampling(STOPS, most, 1.0)
                expected = generate(model, read(model, given), seeds, how)
                assert_same(sampler.respond(given, seeds, how), expected, tolerance=1e-3)
                assert_same(sampler.respond_behind(read(model, given), seeds, how), expected, tolerance=1e-3)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(0.95)  # recordings see it


@needs_gpu
@pytest.mark.parametrize("gib", [0.0, 1.0])
def test_decisions_on_a_gpu_do_not_depend_on_recording(
    model: Any, tokenizer: Any, make_turn: Callable[..., Turn], gib: float
) -> None:
    policy = hf.from_model(copy.deepcopy(model).cuda(), tokenizer, PolicyConfig(cache_gib=gib, max_new_tokens=12))
    turns = [make_turn(seed=at, goal=f"find egg {at}") for at in range(5)]
    longer = [
        make_turn(seed=at, goal=f"find egg {at}", history=(Exchange("You see a egg 1.", "look"),)) for at in range(5)
    ]
    recorded = [policy.act(turns) for _ in range(3)] + [policy.act(longer) for _ in range(3)]
    policy.sampler = None
    policy.forget()
    growing = [policy.act(turns) for _ in range(3)] + [policy.act(longer) for _ in range(3)]
    assert [[d.token_ids for d in step] for step in recorded] == [[d.token_ids for d in step] for step in growing]


def test_a_growing_transcript_meets_few_lengths_and_none_is_much_too_long() -> None:
    lengths = {length: stepping_time(length) for length in range(1, 4097)}
    assert all(length <= rounded <= max(length + 63, 1.25 * length) for length, rounded in lengths.items())
    assert all(stepping_time(rounded) == rounded for rounded in lengths.values())
    assert len(set(lengths.values())) == 8 + 4 * 3, "by 64 to 512, then four for each doubling"
