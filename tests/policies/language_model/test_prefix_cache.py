"""Reading on from the last step: the same decisions as reading everything, and far less of it."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from worldline.policies import PolicyConfig
from worldline.policies.language_model import hf
from worldline.policies.language_model.forward import ROOM
from worldline.policies.language_model.prefix_cache import growing, token_bytes, waves
from worldline.types import Exchange, Turn

Make = Callable[..., Turn]


def grown(make_turn: Make, episode: int, step: int) -> Turn:
    """Turn `step` of an episode that only grows; episodes differ in length of text, groups of two begin alike."""
    past = [Exchange(f"You see a egg {i}. " * (1 + (episode + i) % 3), f"go to desk {episode}") for i in range(step)]
    first = Exchange("You are in the middle of a room.", f"open fridge {episode}")
    history = [first, *past][:step]
    seen = f"You see a egg {step - 1}. " * (1 + (episode + step - 1) % 3) if step else first.observation
    return make_turn(
        history=tuple(history), observation=seen, goal=f"find egg {episode // 2}", seed=97 * episode + step
    )


def played(make_turn: Make) -> Iterator[list[Turn]]:
    """Ticks of a rollout: episodes of 5 steps in 4 places, started at different times."""
    starts = {0: 0, 1: 0, 2: 0, 3: 2, 4: 5, 5: 5}
    for tick in range(9):
        yield [grown(make_turn, e, tick - start) for e, start in starts.items() if 0 <= tick - start < 5]


class Counter:
    """How many tokens a model reads, padding included."""

    def __init__(self, model: Any) -> None:
        self.tokens = 0
        self._handle = model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, model: Any, args: Any, kwargs: Any) -> None:
        self.tokens += kwargs["input_ids"].numel()

    def stop(self) -> int:
        self._handle.remove()
        return self.tokens


@pytest.mark.parametrize("mode", ["choose", "generate"])
@pytest.mark.parametrize("gib", [4.0, 1e-4, 1e-9])
def test_decisions_are_the_same(model: Any, tokenizer: Any, make_turn: Make, mode: str, gib: float) -> None:
    given = {"mode": mode, "max_new_tokens": 6}
    with_cache = hf.from_model(model, tokenizer, PolicyConfig(cache_gib=gib, **given))
    without = hf.from_model(model, tokenizer, PolicyConfig(cache_gib=0, **given))
    for turns in played(make_turn):
        actual, expected = with_cache.act(turns), without.act(turns)
        assert [d.token_ids for d in actual] == [d.token_ids for d in expected]
        for decision, other in zip(actual, expected, strict=True):
            assert decision.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-4)
            assert decision.entropy == pytest.approx(other.entropy, abs=1e-4)


def test_only_what_is_new_is_read(model: Any, tokenizer: Any, make_turn: Make) -> None:
    read = {}
    for gib in (4.0, 0.0):
        policy = hf.from_model(model, tokenizer, PolicyConfig(cache_gib=gib, max_new_tokens=1))
        policy.act([grown(make_turn, e, 4) for e in range(4)])
        counter = Counter(model)
        policy.act([grown(make_turn, e, 5) for e in range(4)])
        read[gib] = counter.stop()
    new = [grown(make_turn, e, 5) for e in range(4)]
    old = [grown(make_turn, e, 4) for e in range(4)]
    longest = max(len(policy.encoder.prompt(b)) - len(policy.encoder.prompt(a)) for a, b in zip(old, new, strict=True))
    assert read[4.0] == 4 * longest
    assert read[0.0] == 4 * max(len(policy.encoder.prompt(turn)) for turn in new)


def test_equal_first_prompts_are_read_once(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(max_new_tokens=1))
    counter = Counter(model)
    policy.act([make_turn(steps=3, seed=i) for i in range(8)])
    assert counter.stop() == len(policy.encoder.prompt(make_turn(steps=3))) - 1 + 8


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_a_logged_episode_is_scored_as_one(model: Any, tokenizer: Any, make_turn: Make, mode: str) -> None:
    turns = [grown(make_turn, e, t) for e in (0, 1, 2) for t in range(5)]
    actions = [["look", "go to desk 1"]] * len(turns)
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode=mode))
    apart = hf.from_model(model, tokenizer, PolicyConfig(mode=mode, cache_gib=0))
    counter = Counter(model)
    actual = policy.logprobs(turns[::-1], actions)[::-1]
    few = counter.stop()
    counter = Counter(model)
    expected = apart.logprobs(turns, actions)
    assert few < counter.stop() / 2
    assert np.array(actual) == pytest.approx(np.array(expected), abs=1e-4)


def test_trained_weights_are_noticed(model: Any, tokenizer: Any, make_turn: Make) -> None:
    trained = copy.deepcopy(model)
    policy = hf.from_model(trained, tokenizer, PolicyConfig(mode="choose"))
    turn = make_turn(steps=3)
    before = policy.act([turn])[0]
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-2)
    trained(torch.tensor([policy.encoder.prompt(turn)])).logits.square().mean().backward()
    optimizer.step()
    after = policy.act([turn])[0]
    expected = hf.from_model(trained, tokenizer, PolicyConfig(mode="choose", cache_gib=0)).act([turn])[0]
    assert after.logprob == pytest.approx(expected.logprob, abs=1e-4)
    assert abs(after.logprob - before.logprob) > 1e-3


def test_forget_drops_what_was_cached_before_weights_changed(model: Any, tokenizer: Any, make_turn: Make) -> None:
    changed = copy.deepcopy(model)
    policy = hf.from_model(changed, tokenizer, PolicyConfig(mode="choose"))
    policy.act([make_turn()])
    for parameter in changed.parameters():
        parameter.data.mul_(0.5)
    policy.forget()
    expected = hf.from_model(changed, tokenizer, PolicyConfig(mode="choose", cache_gib=0)).act([make_turn()])[0]
    assert policy.act([make_turn()])[0].logprob == pytest.approx(expected.logprob, abs=1e-4)


def test_prompts_that_grow_stay_together_and_as_many_as_fit() -> None:
    prompts = [[1], [1, 2], [1, 2, 3], [4], [4, 5], [6], [6, 7, 8]]
    assert growing(prompts, 10_000) == [range(7)]
    assert growing(prompts, 2 * ROOM + 3 + 2) == [range(5), range(5, 7)]
    assert growing(prompts, 1) == [range(3), range(3, 5), range(5, 7)]
    assert growing([], 1) == []


def test_a_log_longer_than_the_cache_is_read_once(model: Any, tokenizer: Any, make_turn: Make) -> None:
    turns = [grown(make_turn, episode, step) for episode in range(12) for step in range(5)]
    actions = [[turn.admissible[0]] for turn in turns]
    tokens = []
    for episodes in (100, 3):
        longest = max(len(prompt) for prompt in hf.from_model(model, tokenizer, PolicyConfig()).encoder.prompts(turns))
        size = 2 * episodes * (longest + ROOM) * token_bytes(model)
        policy = hf.from_model(model, tokenizer, PolicyConfig(mode="choose", cache_gib=size / 2**30))
        counter = Counter(model)
        policy.logprobs(turns, actions)
        tokens.append(counter.stop())
    assert tokens[1] < 1.2 * tokens[0]


def test_waves_put_each_prompt_after_the_one_it_continues() -> None:
    prompts = [[1, 2, 3, 4], [1, 2], [7], [1, 2, 3, 4, 5], [1, 2], [1, 9, 2], [7, 7]]
    assert waves(prompts) == [[1, 2, 4, 5], [0, 6], [3]]
    assert waves([]) == []
