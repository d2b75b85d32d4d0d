"""Cloning: learns what it is shown, only what it is shown, and goes on where it stopped."""

import hashlib
import json
import resource
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import faults
from counting import CountingWorld
from worldline import envs
from worldline.cli import main
from worldline.collect import CollectConfig, collect
from worldline.command_line import read
from worldline.policies import TEMPLATES, Encoder
from worldline.rollout import plan
from worldline.sft import SftConfig, sft
from worldline.sft.clone import Progress
from worldline.sft.demonstrations import Demonstration, drawn, of_expert
from worldline.sft.examples import sequences, texts
from worldline.sft.small import SIZES, small_tokenizer
from worldline.types import InputError, turns

NEVER = 10**9


def settings(out: Path, **more: object) -> SftConfig:
    short = {"episodes": 24, "epochs": 8, "context": 256, "vocabulary": 300, "batch_tokens": 512, "checkpoints": 3}
    if "model" in more:
        del short["vocabulary"]
    return SftConfig.model_validate({"source": "counting:CountingWorld", "out": out, **short, **more})


@pytest.fixture(scope="module")
def demonstrations() -> list[Demonstration]:
    world = envs.load("household")
    return list(of_expert(world, plan(world, "train", 12, seed=0, run="x"), noise=0.3))


@pytest.fixture(scope="module")
def encoder(demonstrations: list[Demonstration]) -> Encoder:
    return Encoder(small_tokenizer(texts(demonstrations), 400), TEMPLATES["transcript"], 2000)


def test_a_clone_does_what_the_expert_does_and_transformers_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "nano", SIZES["nano"] | {"intermediate_size": 192, "num_hidden_layers": 1})
    summary = sft(settings(tmp_path / "run", epochs=40)).summary()
    assert summary["loss"] < 0.05
    assert len(summary["checkpoints"]) == 3
    for folder in (summary["model"], *summary["checkpoints"]):
        assert AutoModelForCausalLM.from_pretrained(folder).config.worldline["prompt"] == "transcript"
        assert AutoTokenizer.from_pretrained(folder).eos_token == "<eos>"
    played = collect(
        CollectConfig(env="counting:CountingWorld", policy=f"hf:{summary['model']}", episodes=12)
    ).summary()
    assert played["success"] == 1.0
    assert played["invalid_actions"] == 0
    # It plays in plain `generate` too: the generation config says that a line break ends an action.
    model, tokenizer = (kind.from_pretrained(summary["model"]) for kind in (AutoModelForCausalLM, AutoTokenizer))
    prompt = tokenizer("Task: count to 2\nat 0\n>", return_tensors="pt", add_special_tokens=False)["input_ids"]
    answer = model.generate(prompt, max_new_tokens=30, do_sample=False)[0, prompt.shape[1] :]
    assert tokenizer.decode(answer) == " up\n"


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


def test_with_both_the_blunders_are_not_learned_either(demonstrations: list[Demonstration], encoder: Encoder) -> None:
    for shown, example in zip(demonstrations, sequences(demonstrations, encoder, "both"), strict=True):
        learned = [token for token, wanted in zip(example.tokens, example.learned, strict=True) if wanted]
        answers = shown.episode.next_observations
        expected = "".join(
            (f" {step.action}\n" if own else "") + f"{answer.strip()}\n>"
            for step, own, answer in zip(shown.episode.steps, shown.learned, answers, strict=True)
        )
        assert encoder.decode(learned) == expected


def test_what_is_merely_read_weighs_little_unless_told_otherwise(tmp_path: Path) -> None:
    def weight(**settings: object) -> float:
        return SftConfig.model_validate({"source": "household", "out": tmp_path, **settings}).read

    assert weight() == 0.1
    assert weight(target="both") == weight(model="some/hub-id") == weight(reading=0) == 0
    assert weight(reading=0.01) == 0.01


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tiny: None, tmp_path: Path) -> None:
    sft(settings(tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        sft(settings(tmp_path / "cut"), trained=stop_at(2 * len(metrics(tmp_path / "whole")) // 3 + 1))
    sft(settings(tmp_path / "cut", resume=True))
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    again = sft(settings(tmp_path / "cut", resume=True))  # nothing is left to do
    assert asdict(again.progress) == metrics(tmp_path / "whole")[-1]


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def stop_at(step: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    return stop


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nano model that is made and trained in no time."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    monkeypatch.setitem(SIZES, "nano", sizes)


def test_what_comes_before_the_first_checkpoint_is_made_again(tiny: None, tmp_path: Path) -> None:
    sft(settings(tmp_path / "whole", checkpoints=1))
    with pytest.raises(KeyboardInterrupt):
        sft(settings(tmp_path / "cut", checkpoints=1), trained=stop_at(3))
    assert len(metrics(tmp_path / "cut")) == 3
    sft(settings(tmp_path / "cut", checkpoints=1, resume=True))
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


def test_a_torn_line_of_metrics_is_left_out_with_a_note(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings(tmp_path / "run", epochs=1)
    whole = sft(config)
    rows = metrics(config.out)
    with (config.out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "lo')
    flags = "--episodes 24 --epochs 1 --context 256 --vocabulary 300 --batch-tokens 512 --checkpoints 3 --resume"
    assert main(["sft", config.source, "--out", str(config.out), *flags.split()]) == 0
    assert "metrics.jsonl: its last line was cut short by a crash" in capsys.readouterr().err
    assert metrics(config.out) == rows
    assert whole.notes == ()
    with (config.out / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(InputError, match=f"metrics.jsonl: line {len(rows) + 1} is no JSON object with 'step'"):
        sft(config.model_copy(update={"resume": True}))


def test_a_resumed_clone_reads_the_log_and_the_model_it_began_with(tiny: None, tmp_path: Path) -> None:
    log, start = tmp_path / "log", sft(settings(tmp_path / "start", epochs=0.1)).summary()["model"]
    more = CollectConfig(env="counting:CountingWorld", policy="expert", episodes=6, out=log)
    collect(more)
    config = settings(tmp_path / "run", source=str(log), model=start, epochs=1, resume=True)
    sft(config)
    sft(config)
    collect(more.model_copy(update={"episodes": 8, "resume": True}))
    with pytest.raises(InputError, match=f"{log}: has changed since the cloning run in .* began"):
        sft(config)
    sft(config.model_copy(update={"resume": False, "overwrite": True}))
    sft(settings(tmp_path / "start", epochs=0.1, seed=1, overwrite=True))
    with pytest.raises(InputError, match=f"{start}: has changed since the cloning run in .* began"):
        sft(config)


def test_a_training_state_is_data_and_as_it_was_saved(tiny: None, tmp_path: Path) -> None:
    config = settings(tmp_path / "run", epochs=1)
    sft(config)
    state, resumed = config.out / "training_state.pt", config.model_copy(update={"resume": True})
    whole = state.read_bytes()
    torch.save({"progress": Trap(tmp_path / "sprung")}, state)
    for content in (whole[: len(whole) // 2], whole[:-200] + b"!" + whole[-199:], b"", state.read_bytes()):
        state.write_bytes(content)
        with pytest.raises(
            InputError, match=f"{state}: no training state to go on from: cut short or corrupt: --overwrite"
        ):
            sft(resumed)
    signed = state.read_bytes()
    state.write_bytes(signed + hashlib.blake2b(signed, digest_size=16).digest())
    with pytest.raises(InputError, match=f"{state}: no training state to go on from: not tensors and plain values"):
        sft(resumed)
    assert not (tmp_path / "sprung").exists()
    state.write_bytes(whole)
    sft(resumed)


class Trap:
    """Pickles as a call that leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def test_a_run_that_cannot_begin_leaves_the_one_it_would_replace(tiny: None, tmp_path: Path) -> None:
    sft(settings(tmp_path / "run", epochs=1))
    before = faults.snapshot(tmp_path / "run")
    for wrong in ({"target": "observation", "prompt": "plain"}, {"model": "no/such/folder/here"}):
        with pytest.raises(InputError, match="--"):
            sft(settings(tmp_path / "run", overwrite=True, **wrong))
    assert faults.snapshot(tmp_path / "run") == before


def test_a_full_disk_is_one_line(tiny: None, tmp_path: Path) -> None:
    """The libraries that write models raise errors of their own for it."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))  # no larger file can be written
        sft(settings(tmp_path / "run", epochs=1))

    assert faults.broken(work, number=NEVER, how="full") == faults.REFUSED


@pytest.mark.parametrize(("name", "noise"), [("alfworld", 0.15), ("scienceworld", 0.1)])
def test_the_shipped_recipes_are_valid(name: str, noise: float) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / f"{name}-clone.yaml"
    config = read(SftConfig, [str(recipe), "--data", "games", "--out", "run", "--epochs", "2"])
    assert (config.source, config.noise, config.context, config.epochs) == (name, noise, 2048, 2)


def test_what_was_not_cloned_is_counted(tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of which some episodes fail, and an expert whom random steps ruin."""
    played = collect(CollectConfig(env="counting:CountingWorld", policy="random", episodes=24, out=tmp_path / "log"))
    won = sum(bool(success) for success in played.tally.successes)
    assert 0 < won < 24
    short = ["--out", str(tmp_path / "run"), "--overwrite", "--epochs", "0.1", "--context", "256"]
    short += ["--vocabulary", "300", "--episodes", "24"]
    assert main(["sft", str(tmp_path / "log"), *short]) == 0
    out = capsys.readouterr().out
    assert f"cloned {won} of 24 episodes" in out
    assert f"left out: {24 - won} did not succeed (--no-only-success takes them too)" in " ".join(out.split())
    assert main(["sft", "counting:CountingWorld", *short, "--noise", "0.9"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    world = CountingWorld()
    shown = list(of_expert(world, plan(world, world.splits()[0], 24, seed=0, run="expert"), noise=0.9))
    assert f"cloned {len(shown)} of 24 episodes" in out
    assert f"left out: {24 - len(shown)} ended badly after random steps (--noise 0.9)" in out


def failing_log(folder: Path, episodes: int) -> int:
    """How many of a random player's episodes in the log succeeded."""
    played = collect(CollectConfig(env="counting:CountingWorld", policy="random", episodes=episodes, out=folder))
    return sum(bool(success) for success in played.tally.successes)


def test_one_policy_of_a_log_is_cloned(tiny: None, tmp_path: Path) -> None:
    """Its failures too, where these are wanted: as a logger it failed as well."""
    for name, episodes in (("random", 9), ("first", 5)):
        played = {"env": "counting:CountingWorld", "policy": "random", "name": name, "out": tmp_path / "log"}
        collect(CollectConfig(**played, episodes=episodes))
    how = {"source": str(tmp_path / "log"), "only_success": False, "epochs": 0.1}
    assert sft(settings(tmp_path / "first", **how, policies=("first",))).episodes == 5
    assert sft(settings(tmp_path / "both", **how)).episodes == 14
    with pytest.raises(InputError, match="--policies: no episode has the policy 'frist'"):
        sft(settings(tmp_path / "slip", **how, policies=("frist",)))
    with pytest.raises(InputError, match="--policies: only of a log"):
        sft(settings(tmp_path / "expert", source="counting:CountingWorld", policies=("first",)))


def test_a_world_model_of_text_learns_from_failures_too(tiny: None, tmp_path: Path) -> None:
    won = failing_log(tmp_path / "log", 24)
    how = {"source": str(tmp_path / "log"), "target": "observation", "outcome": True, "epochs": 0.1}
    every = sft(settings(tmp_path / "all", **how))
    assert (every.episodes, every.lost, every.config.only_success) == (24, 0, False)
    assert sft(settings(tmp_path / "won", **how, only_success=True)).episodes == won < 24
    assert settings(tmp_path, target="both").only_success
    words = ["log", "--out", str(tmp_path / "x"), "--target", "observation"]
    assert not read(SftConfig, words).only_success
    assert read(SftConfig, [*words, "--only-success"]).only_success


def test_a_limit_draws_from_the_whole_log(tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    won = failing_log(tmp_path / "log", 40)
    few = won // 2
    short = ["--out", str(tmp_path / "run"), "--overwrite", "--epochs", "0.1", "--context", "256"]
    assert main(["sft", str(tmp_path / "log"), *short, "--vocabulary", "300", "--episodes", str(few)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"cloned {few} of 40 episodes" in out
    assert f"left out: {won - few} by --episodes {few} (drawn by --seed), {40 - won} did not succeed" in out


def test_a_draw_is_spread_in_the_order_of_the_log_and_follows_the_seed(demonstrations: list[Demonstration]) -> None:
    some = drawn(demonstrations, 5, seed=0)
    places = [demonstrations.index(one) for one in some]
    assert places == sorted(places)
    assert len(set(places)) == 5
    assert places != [0, 1, 2, 3, 4]
    assert drawn(demonstrations, 5, seed=0) == some != drawn(demonstrations, 5, seed=1)
    assert drawn(demonstrations, len(demonstrations), seed=0) == demonstrations


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--lora 4", "--lora: nano is new: its random weights would stay: give a trained --model, or leave it out"),
        ("--lora 4 --model mini", "--lora: mini is new"),
        ("--model runs/x --vocabulary 512", "--vocabulary: --model runs/x has a tokenizer of its own: leave it out"),
    ],
)
def test_settings_of_new_models_and_of_trained_ones_are_kept_apart(words: str, line: str) -> None:
    with pytest.raises(InputError, match=f"^{line}"):
        read(SftConfig, ["household", "--out", "run", *words.split()])


def test_an_expert_that_raises_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ("from counting import CountingWorld", "class Unsure(CountingWorld):")
    (tmp_path / "unsure.py").write_text("\n".join([*lines, "    def expert(self, turn): raise ValueError('where?')"]))
    monkeypatch.chdir(tmp_path)
    assert main(["sft", "unsure:Unsure", "--out", "run"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "worldline sft: the expert of counting failed: ValueError: where? (unsure.py, line 3)"


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


def test_a_device_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["sft", "counting:CountingWorld", "--out", str(out), "--device", "cuda:99"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("worldline sft: --device: 'cuda:99' cannot be used: ")
    assert not out.exists()


def test_a_model_is_trained_on_the_chosen_device_and_may_go_on_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[str] = []

    def clone(model: Any, *_: Any, **__: Any) -> None:
        devices.append(str(model.device))
        raise InputError("stop here")

    monkeypatch.setattr("worldline.sft.clone", clone)
    for device, resume in (("meta", False), ("cpu", True)):
        with pytest.raises(InputError, match="stop here"):
            sft(settings(tmp_path / "run", episodes=1, device=device, resume=resume))
    assert devices == ["meta", "cpu"]
