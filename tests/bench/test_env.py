"""`bench env` on a world that counts its own steps, under a clock on which everything takes one second."""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from counting import CountingEnv, CountingWorld
from tiny_llama import tiny_llama
from worldline.bench import env
from worldline.cli import main
from worldline.policies import PolicyConfig, load
from worldline.policies.language_model.checkpoint import save
from worldline.rollout import Rollout, plan
from worldline.sft.small import small_tokenizer


def test_the_figures_are_the_steps_and_tokens_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = small_tokenizer(["count to 3", "at 0", "up", "stay"], 300)
    save(tiny_llama(tokenizer, 32, intermediate_size=64, num_hidden_layers=1), tokenizer, tmp_path / "model")
    seconds = itertools.count()
    monkeypatch.setattr(env, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))
    monkeypatch.setattr(env, "envs", SimpleNamespace(load=lambda name: CountingWorld()))
    briefly = PolicyConfig(max_new_tokens=12)  # random weights hardly ever end an action by themselves
    monkeypatch.setattr(env, "PolicyConfig", lambda: briefly)
    words = "bench env --steps 100 --episodes 3 --batch-size 3 --seed 5 --json --model".split()
    assert main([*words, str(tmp_path / "model")]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]

    # Whole episodes of random actions until there are 100 steps.
    draw, steps, episode = random.Random(5), 0, 0
    while steps < 100:
        world = CountingEnv()
        world.reset(task=str(episode % 3 + 1))
        while world.count < world.target:
            world.step(draw.choice(("up", "stay")))
            steps += 1
        episode += 1
    assert {figures[f"{name}_steps_per_second"] for name in ("household", "shop", "searchqa")} == {float(steps)}

    policy = load(f"hf:{tmp_path / 'model'}", settings=briefly)
    episodes = plan(CountingWorld(), "train", 3, seed=5, run="bench")
    tokens = [
        sum(len(step.token_ids or ()) for step in played.steps)
        for planned in episodes
        for played in Rollout(CountingWorld(), policy, batch_size=1).play([planned])
    ]
    assert min(tokens) > 0
    assert figures["tokens_per_second_batched"] == sum(tokens)
    first_two = plan(CountingWorld(), "train", 2, seed=5, run="bench")
    assert [planned.id for planned in first_two] == [planned.id for planned in episodes[:2]]
    assert figures["tokens_per_second_one_by_one"] == sum(tokens[:2])
    assert figures["batched_over_one_by_one"] == sum(tokens) / sum(tokens[:2])
