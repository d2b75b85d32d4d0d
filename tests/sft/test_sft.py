"""Cloning: learns what it is shown, only what it is shown, and goes on where it stopped."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from worldline import envs
from worldline.collect import CollectConfig, collect
from worldline.config import read
from worldline.policies import TEMPLATES, Encoder
from worldline.rollout import plan
from worldline.sft import SftConfig, sft
from worldline.sft.clone import Progress, cloning_loss
from worldline.sft.demonstrations import Demonstration, of_expert
from worldline.sft.examples import sequences, texts
from worldline.sft.small import small_model, small_tokenizer
from worldline.types import InputError, turns


def settings(out: Path, **more: object) -> SftConfig:
    short = {"episodes": 24, "epochs": 8, "context": 256, "vocabulary": 300, "batch_tokens": 512, "checkpoints": 3}
    return SftConfig.model_validate({"source": "counting:CountingWorld", "out": out, **short, **more})


@pytest.fixture(scope="module")
def demonstrations() -> list[Demonstration]:
    world = envs.load("household")
    return list(of_expert(world, plan(world, "train", 12, seed=0, run="x"), noise=0.3))


@pytest.fixture(scope="module")
def encoder(demonstrations: list[Demonstration]) -> Encoder:
    return Encoder(small_tokenizer(texts(demonstrations), 400), TEMPLATES["transcript"], 2000)


def test_a_clone_does_what_the_expert_does_and_transformers_loads_it(tmp_path: Path) -> None:
    told = sft(settings(tmp_path / "run", epochs=40)).summary()
    assert told["loss"] < 0.05
    assert len(told["checkpoints"]) == 3
    for folder in (told["model"], *told["checkpoints"]):
        assert AutoModelForCausalLM.from_pretrained(folder).config.worldline["prompt"] == "transcript"
        assert AutoTokenizer.from_pretrained(folder).eos_token == "<eos>"
    played = collect(CollectConfig(env="counting:CountingWorld", policy=f"hf:{told['model']}", episodes=12)).summary()
    assert played["success"] == 1.0
    assert played["invalid_actions"] == 0


def test_actions_are_learned_and_nothing_else(demonstrations: list[Demonstration], encoder: Encoder) -> None:
    for shown, example in zip(demonstrations, sequences(demonstrations, encoder, "action"), strict=True):
        learned = [token for token, wanted in zip(example.tokens, example.learned, strict=True) if wanted]
        wanted = [f" {step.action}" for step, own in zip(shown.episode.steps, shown.learned, strict=True) if own]
        assert encoder.decode(learned).split("\n")[:-1] == wanted


def test_an_episode_over_the_budget_is_learned_whole_in_overlapping_windows(
    demonstrations: list[Demonstration], encoder: Encoder
) -> None:
    shown = max(demonstrations, key=lambda shown: len(shown.episode))
    narrow = Encoder(encoder.tokenizer, encoder.template, 220)
    examples = sequences([shown], narrow, "action")
    (whole,) = sequences([shown], encoder, "action")
    assert len(examples) > 2
    assert sum(sum(example.learned) for example in examples) == sum(whole.learned), "every action once"
    assert all(len(example.tokens) <= 220 + 64 for example in examples)
    tokens = [
        token
        for example in reversed(examples)
        for token, own in zip(example.tokens, example.learned, strict=True)
        if own
    ]
    assert encoder.decode(tokens).split("\n")[:-1] == [
        f" {step.action}" for step, own in zip(shown.episode.steps, shown.learned, strict=True) if own
    ]
    for example in examples[:-1]:
        at = example.learned.index(True)
        assert at > len(example.tokens) // 4, "what is learned has a good part of the window before it"


def test_blunders_are_seen_but_not_learned(demonstrations: list[Demonstration]) -> None:
    world = envs.load("household")
    blunders = [
        step
        for shown in demonstrations
        for turn, step, learned in zip(turns(shown.episode), shown.episode.steps, shown.learned, strict=True)
        if (world.expert(turn) == step.action) != learned or not learned
    ]
    assert {step.valid for step in blunders} == {True, False}, "some the world takes, some it refuses"
    assert 0.15 < len(blunders) / sum(len(shown.episode) for shown in demonstrations) < 0.4
    assert all(shown.episode.success for shown in demonstrations)


def test_observations_are_learned_from_the_first_answer_to_the_last(
    demonstrations: list[Demonstration], encoder: Encoder
) -> None:
    episode = demonstrations[0].episode
    (example,) = sequences(demonstrations[:1], encoder, "observation")
    learned = [token for token, wanted in zip(example.tokens, example.learned, strict=True) if wanted]
    answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
    assert encoder.decode(learned) == "".join(f"{answer.strip()}\n>" for answer in answers)


def test_loss_is_that_of_transformers_on_the_learned_tokens(
    demonstrations: list[Demonstration], encoder: Encoder
) -> None:
    model = small_model(encoder.tokenizer, "nano", 2048, seed=0)
    batch = sequences(demonstrations[:3], encoder, "action")
    total, count = 0.0, 0
    for example in batch:
        ids = torch.tensor([example.tokens])
        labels = torch.where(torch.tensor([example.learned]), ids, -100)
        n = int((labels[:, 1:] != -100).sum())
        total, count = total + model(input_ids=ids, labels=labels).loss.item() * n, count + n
    assert cloning_loss(model, batch, pad=0).item() == pytest.approx(total / count, abs=1e-5)


def test_what_is_merely_read_weighs_little_unless_told_otherwise(tmp_path: Path) -> None:
    def weight(**settings: object) -> float:
        return SftConfig.model_validate({"source": "household", "out": tmp_path, **settings}).read

    assert weight() == 0.1
    assert weight(target="both") == weight(model="some/hub-id") == weight(reading=0) == 0
    assert weight(reading=0.01) == 0.01


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    sft(settings(tmp_path / "whole"))

    def stop(progress: Progress) -> None:
        if progress.step == 2 * progress.steps // 3 + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sft(settings(tmp_path / "cut"), trained=stop)
    sft(settings(tmp_path / "cut", resume=True))
    whole, cut = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "cut")
    )
    assert [row["step"] for row in cut] == list(range(1, len(whole) + 1))
    assert [row["loss"] for row in cut] == pytest.approx([row["loss"] for row in whole], abs=1e-6)


@pytest.mark.parametrize(("name", "noise"), [("alfworld", 0.15), ("scienceworld", 0.1)])
def test_the_shipped_recipes_are_valid(name: str, noise: float) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / f"{name}-clone.yaml"
    config = read(SftConfig, [str(recipe), "--data", "games", "--out", "run", "--epochs", "2"])
    assert (config.source, config.noise, config.context, config.epochs) == (name, noise, 2048, 2)


def test_a_run_is_never_silently_overwritten(tmp_path: Path) -> None:
    sft(settings(tmp_path / "run", epochs=0.2))
    with pytest.raises(InputError, match="holds a cloning run: --resume goes on with it, --overwrite starts anew"):
        sft(settings(tmp_path / "run", epochs=0.2))
    sft(settings(tmp_path / "run", epochs=0.2, overwrite=True))


def test_lora_trains_adapters_only_and_saves_a_plain_model(tmp_path: Path) -> None:
    start = sft(settings(tmp_path / "start", epochs=0.2)).summary()["model"]
    tuned = sft(settings(tmp_path / "tuned", model=start, lora=4, epochs=0.5)).summary()["model"]
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (start, tuned))
    changed = {
        name
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not old.equal(new)
    }
    assert changed
    assert all("_proj" in name for name in changed)


def test_bad_words_name_the_flag(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--model .*: not a model: the folder has no config.json"):
        sft(settings(tmp_path / "a", model=str(tmp_path)))
    with pytest.raises(InputError, match="--target observation: .* give --prompt transcript"):
        sft(settings(tmp_path / "b", target="observation", prompt="plain"))
