"""The whole loop on the counting world: it learns, it resumes exactly, and it stops as it says it does."""

import json
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from counting_recipe import RECIPE
from start_policy import WORDS
from transformers import AutoModelForCausalLM

from counting import CountingWorld
from worldline import policies, store
from worldline.cli import main
from worldline.paw import train as loop
from worldline.paw.credit import TokenCredit
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.policies import PolicyConfig
from worldline.policies.language_model import prefix_cache
from worldline.policies.language_model.prefix_cache import PromptBatch
from worldline.rollout import Rollout, plan
from worldline.types import InputError, WorldlineError


def recipe(start: Path, out: Path, **changes: Any) -> TrainConfig:
    return TrainConfig.model_validate({**RECIPE, "model": str(start), "out": out} | changes)


def lines(out: Path) -> list[dict[str, Any]]:
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(("seconds", "peak"))} for line in metrics]


def test_it_learns_to_count(start: Path, tmp_path: Path) -> None:
    changes = {"updates": 8, "groups": 6, "group_size": 8, "algo": "gigpo"}
    train(recipe(start, tmp_path / "run", **changes))
    metrics = lines(tmp_path / "run")
    assert metrics[0]["eval_success"] < 0.7
    assert metrics[-1]["eval_success"] > 0.85
    assert metrics[-1]["lambda"] < metrics[1]["lambda"]


def test_a_packed_run_is_a_padded_one(start: Path, tmp_path: Path) -> None:
    """GRPO + PaW with clip-higher, the reference, two epochs: the old log-probs are read packed too."""
    settings = {"lr": 2e-3, "mini_batch": 16, "batch_tokens": 200, "clip_high": 0.28, "epochs": 2}
    for packing in (False, True):
        update = settings | {"packing": packing}
        train(recipe(start, tmp_path / f"{packing}", updates=2, update=update))
    padded, packed = lines(tmp_path / "False"), lines(tmp_path / "True")
    assert len(padded) == len(packed) == 3
    for one, other in zip(padded, packed, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"algo": "grpo", "preset": "verl_agent", "wm": "ce"},
        {"algo": "rloo", "wm": "off", "update": {"kl": 0.0, "mini_batch": 0, "lr": 1e-3}},
        {"algo": "ppo", "learner": {"critic": "own"}, "world": {"selection": "sampled"}},
        {"algo": "gigpo", "learner": {"lora": 4}, "credit": {"anchors": "similar"}},
        {"precision": "bf16", "rollout": {"dtype": "bfloat16", "max_new_tokens": 4, "device": "cpu"}},
        {
            "world": {"horizon": 3, "deduplicate": True, "novel": True, "coefficient": "failed"},
            "learner": {"lora": 4, "gradient_checkpointing": True},
        },
        {
            "wm": "echo",
            "refill": 2,
            "credit": {"penalty": "format"},
            "world": {"skip": ["[0-9]"]},
            "evaluation": {"every": 1, "episodes": 8, "repeats": 4},
            "update": {"schedule": "cosine", "clip_high": 0.3, "aggregation": "sequence", "lr": 1e-3, "mini_batch": 16},
        },
    ],
    ids=lambda changes: "-".join(str(v) for v in list(changes.values())[:2]),
)
def test_every_kind_of_run_goes_through_and_its_checkpoint_plays(
    start: Path, tmp_path: Path, changes: dict[str, Any], fresh_accelerator: None
) -> None:
    out = tmp_path / "run"
    result = train(recipe(start, out, **({"updates": 2} | changes)))
    assert [line["update"] for line in lines(out)] == [0, 1, 2]
    assert result.checkpoint.name == "update-000002"
    trained = AutoModelForCausalLM.from_pretrained(result.checkpoint)
    assert trained.generation_config.eos_token_id == [WORDS.index("<eos>"), WORDS.index("\n")]
    before = AutoModelForCausalLM.from_pretrained(start)
    assert trained.state_dict().keys() == before.state_dict().keys()
    assert any(not torch.equal(p.float(), q) for p, q in zip(trained.parameters(), before.parameters(), strict=True))
    world = CountingWorld()
    policy = policies.load(f"hf:{result.checkpoint}", world, PolicyConfig(max_new_tokens=4, device="cpu"))
    played = list(Rollout(world, policy).play(plan(world, "test", 3, seed=0, run="x")))
    assert any(step.valid for trajectory in played for step in trajectory.steps)
    assert ("wm_loss" in lines(out)[1]) == (changes.get("wm") != "off")


def test_the_training_episodes_are_an_ordinary_log(start: Path, tmp_path: Path) -> None:
    train(recipe(start, tmp_path / "run", updates=2))
    episodes = list(store.read(tmp_path / "run"))
    assert len(episodes) == 2 * 12
    assert {episode.policy for episode in episodes} == {"update-000000", "update-000001"}
    tasks = {episode.id[:12]: episode.task_id for episode in episodes}
    assert all(episode.task_id == tasks[episode.id[:12]] for episode in episodes)  # one task per group
    assert sorted(tasks[f"u000001-{group:04d}"] for group in range(3)) == ["1", "2", "3"]


def test_every_update_says_how_well_the_start_is_predicted_and_how_the_gradients_lie(
    start: Path, tmp_path: Path
) -> None:
    """At update 0 it is the start's own figure; a run that learns of the world ends below one that does not."""
    runs = {}
    for wm in ("ce", "off"):
        world = {"coefficient": "constant", "start": 3.0, "selection": "all", "angle_every": 2}
        train(recipe(start, tmp_path / wm, wm=wm, updates=4, world=world))
        runs[wm] = lines(tmp_path / wm)
    entropies = {
        wm: [line["eval_observation_ce"] for line in run if "eval_success" in line] for wm, run in runs.items()
    }
    assert [len(curve) for curve in entropies.values()] == [3, 3]
    assert entropies["ce"][0] == entropies["off"][0]  # the same text, the same weights
    assert entropies["ce"][-1] < entropies["off"][-1]
    assert ["grad_cosine" in line for line in runs["ce"]] == [False, True, True, False, True]
    assert not any("grad_cosine" in line for line in runs["off"])


@pytest.mark.parametrize("algo", ["grpo", "ppo"])
def test_the_world_model_can_begin_alone(start: Path, tmp_path: Path, algo: str) -> None:
    """No action is credited in the first update; the weights change all the same, and so do those of the critic."""
    changes = {"algo": algo, "wm": "ce", "updates": 2, "checkpoint_every": 1, "evaluation": {"every": 0}}
    changes |= {"update": {"lr": 2e-3, "mini_batch": 0, "kl": 0.0, "weight_decay": 0.0}}
    train(recipe(start, tmp_path / "run", **changes, world={"alone": 1}))
    first, second = lines(tmp_path / "run")
    assert first["pg_loss"] == first["grad_norm_policy"] == 0.0
    assert first["grad_norm_world"] > 0 and first["grad_norm"] == pytest.approx(first["grad_norm_world"], rel=1e-4)
    assert second["pg_loss"] != 0.0
    assert algo != "ppo" or first["critic_grad_norm"] > 0
    before, after = _weights(start), _weights(tmp_path / "run" / "checkpoints" / "update-000001")
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_without_a_world_model_it_is_never_alone(start: Path, tmp_path: Path) -> None:
    """Like all settings of the world, this one says nothing with --wm off."""
    changes = {"wm": "off", "updates": 1, "evaluation": {"every": 0}}
    for alone in (0, 1):
        train(recipe(start, tmp_path / f"{alone}", **changes, world={"alone": alone}))
    assert lines(tmp_path / "0") == lines(tmp_path / "1")


def test_refilled_groups_all_vary_and_what_was_dropped_is_in_the_log(start: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe(start, out, updates=1, refill=3, group_size=2, evaluation={"every": 0}))
    (line,) = lines(out)
    played = list(store.read(out))
    assert line["episodes"] == len(played)
    groups: dict[str, set[bool | None]] = {}
    for episode in played:
        groups.setdefault(episode.id[:12], set()).add(episode.success)
    flat = [name for name, seen in groups.items() if len(seen) == 1]
    assert flat, "this start has groups of two that agree"
    assert line["groups_dropped"] == len(groups) - 3 or line["groups_dropped"] == len(flat)
    assert line["rows"] < sum(len(episode) for episode in played)


def test_the_refill_needs_groups(start: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--refill: PPO"):
        train(recipe(start, tmp_path / "run", algo="ppo", refill=1))


def test_a_line_for_every_update_on_stderr_and_nothing_on_stdout_but_the_result(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--updates", "2", "--groups", "2", "--group-size", "2", "--max-steps", "2", "--rollout.device", "cpu"]
    flags += ["--evaluation.episodes", "2", "--rollout.max-new-tokens", "2", "--json"]
    assert main(["train", "counting:CountingWorld", "--model", str(start), "--out", str(tmp_path / "run"), *flags]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["update"] == 2
    reports = [line for line in shown.err.splitlines() if line.startswith("update ")]
    assert [line.partition(":")[0] for line in reports] == ["update 0 of 2", "update 1 of 2", "update 2 of 2"]
    for word in ("reward", "success", "kl", "entropy", "policy loss", "clipped", "rollout s", "update s", "left"):
        assert word in reports[1], word


class Killed(BaseException):
    """What nobody catches."""


def _in_the_middle_of_update_3(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    real = loop.update
    calls = []

    def deadly(*args: Any, **kwargs: Any) -> dict[str, float]:
        calls.append(1)
        if len(calls) == 3:
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(loop, "update", deadly)
    return lambda metrics: None


def _right_after_the_metrics_of_update_3(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    def watch(metrics: dict[str, Any]) -> None:
        if metrics["update"] == 3:
            raise Killed

    return watch


def _before_the_first_checkpoint(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    def watch(metrics: dict[str, Any]) -> None:
        if metrics["update"] == 1:
            raise Killed

    return watch


@pytest.fixture(scope="module", params=["grpo", "ppo"])
def undisturbed(request: pytest.FixtureRequest, start: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    config = recipe(start, tmp_path_factory.mktemp("whole") / "run", algo=request.param)
    train(config)
    return config


@pytest.mark.parametrize(
    "kill", [_in_the_middle_of_update_3, _right_after_the_metrics_of_update_3, _before_the_first_checkpoint]
)
def test_a_killed_run_resumes_as_if_it_had_never_stopped(
    undisturbed: TrainConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kill: Callable[[pytest.MonkeyPatch], Callable[[dict[str, Any]], None]],
) -> None:
    whole, killed = undisturbed.out, tmp_path / "killed"
    config = undisturbed.model_copy(update={"out": killed})
    with pytest.raises(Killed), monkeypatch.context() as patch:
        train(config, kill(patch))
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"update": 3, "rew')  # torn by the crash
    begun: list[int] = []
    resumed = train(config.model_copy(update={"resume": True}), begin=begun.append)
    assert begun == [0 if kill is _before_the_first_checkpoint else 2]  # a checkpoint after every second update
    assert [note.rpartition("metrics.jsonl: ")[2] for note in resumed.notes] == [
        "its last line was cut short by a crash and is left out"
    ]
    assert lines(killed) == lines(whole)
    assert sorted(e.id for e in store.read(killed)) == sorted(e.id for e in store.read(whole))
    for one, two in zip(*(_weights(run / "checkpoints" / "update-000004") for run in (whole, killed)), strict=True):
        assert torch.equal(one, two)


def _weights(folder: Path) -> list[torch.Tensor]:
    return list(AutoModelForCausalLM.from_pretrained(folder).parameters())


def test_only_the_newest_checkpoint_keeps_the_optimizer_and_a_run_can_be_made_longer(
    start: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    train(recipe(start, out))
    train(recipe(start, out, updates=6, resume=True))
    assert [line["update"] for line in lines(out)] == list(range(7))
    holding = [folder.name for folder in (out / "checkpoints").iterdir() if (folder / "training_state.pt").exists()]
    assert holding == ["update-000006"]
    assert len(list((out / "checkpoints").iterdir())) == 3


def test_the_newest_checkpoints_are_kept_and_a_pruned_run_goes_on(start: Path, tmp_path: Path) -> None:
    pruned = {"checkpoint_every": 1, "keep_checkpoints": 2, "evaluation": {"every": 0}}
    for updates, names in ((1, ["update-000001"]), (3, ["update-000002", "update-000003"])):
        train(recipe(start, tmp_path / "run", updates=updates, resume=True, **pruned))
        assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == names
    assert (tmp_path / "run" / "checkpoints" / "update-000003" / "training_state.pt").exists()


def test_a_start_that_is_not_judged_plays_held_out_episodes_only(start: Path, tmp_path: Path) -> None:
    evaluation = {"every": 1, "first": 2, "episodes": 8, "held_out": 3}
    train(recipe(start, tmp_path / "run", updates=2, evaluation=evaluation))
    first, second, last = lines(tmp_path / "run")
    assert [name for name in first if name.startswith("eval")] == ["eval_observation_ce"], "what it saw, not how it did"
    assert ("eval_success" in second, last["eval_episodes"]) == (False, 8)
    assert last["eval_observation_ce"] != first["eval_observation_ce"]
    train(recipe(start, tmp_path / "none", updates=1, evaluation=evaluation | {"held_out": 0}))
    assert [(line["update"], line["eval_episodes"]) for line in lines(tmp_path / "none")] == [(1, 8)]


def test_an_update_has_the_memory_of_the_prompts_that_were_cached(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: weakref.WeakSet[PromptBatch] = weakref.WeakSet()  # of this run: another test's may still be in memory
    held: list[int] = []

    def watched_batch(*given: Any) -> PromptBatch:
        batch = PromptBatch(*given)
        batches.add(batch)
        held.append(len(batches))
        return batch

    def watched_update(*given: Any, **named: Any) -> Any:
        held.append(len(batches))
        return update(*given, **named)

    update = loop.update
    monkeypatch.setattr(prefix_cache, "PromptBatch", watched_batch)
    monkeypatch.setattr(loop, "update", watched_update)
    train(recipe(start, tmp_path / "run", updates=1, evaluation={"every": 0}))
    assert held[-1] == 0
    assert max(held) > 0, "the world's prompts grow, and are cached"


def test_a_run_for_which_the_memory_was_too_small_goes_on_with_less_of_it(start: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe(start, out, updates=1))
    smaller = recipe(start, out).rollout.model_dump() | {"cache_gib": 0.5, "batch_tokens": 512}
    update = recipe(start, out).update.model_dump() | {"batch_tokens": 256}
    train(recipe(start, out, updates=2, resume=True, batch_size=3, rollout=smaller, update=update))
    assert [line["update"] for line in lines(out)] == [0, 1, 2]


def test_a_folder_with_a_run_is_not_overwritten_silently(start: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe(start, out, updates=1))
    with pytest.raises(InputError, match="--resume goes on with it, --overwrite starts anew"):
        train(recipe(start, out, updates=1))
    with pytest.raises(InputError, match="--model"):
        train(recipe(tmp_path, out, updates=1, overwrite=True))  # what cannot replace it leaves it as it was
    assert len(list(store.read(out))) == 12
    with pytest.raises(InputError, match="begun with another 'seed'"):
        train(recipe(start, out, updates=2, resume=True, seed=5))
    rollout = recipe(start, out).rollout.model_dump()
    with pytest.raises(InputError, match=r"begun with another 'rollout\.temperature'"):
        train(recipe(start, out, updates=2, resume=True, rollout=rollout | {"temperature": 0.5}))
    train(recipe(start, out, updates=1, overwrite=True, seed=5))
    assert [line["update"] for line in lines(out)] == [0, 1]
    assert len(list(store.read(out))) == 12


def test_a_run_goes_on_only_with_the_model_it_began_with(start: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "run"
    shutil.copytree(start, model)
    whole = train(recipe(model, out, updates=1))
    again = train(recipe(model, out, updates=1, resume=True))
    assert again == whole, "nothing was left to do"
    other = AutoModelForCausalLM.from_pretrained(model)
    other.get_input_embeddings().weight.data += 0.01
    other.save_pretrained(model)
    with pytest.raises(InputError, match=f"{model}: has changed since the training run in {out} began: .*--overwrite"):
        train(recipe(model, out, updates=2, resume=True))


def test_a_training_state_that_is_not_whole_is_one_line(start: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    state = train(recipe(start, out, updates=1)).checkpoint / "training_state.pt"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(InputError, match=f"{state}: no training state to go on from: cut short or corrupt"):
        train(recipe(start, out, updates=2, resume=True))


def test_an_environment_that_raises_costs_its_episodes_only(start: Path, tmp_path: Path) -> None:
    train(recipe(start, tmp_path / "run", env="odd_worlds:ShakyWorld", updates=1))
    line = lines(tmp_path / "run")[1]
    assert (line["episodes"], line["failed"]) == (8, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "odd_worlds:BrokenWorld"}, "8 of 12 episodes failed, the first as u0.*the floor gave way"),
        ({"env": "odd_worlds:NanWorld"}, "the environment paid .*nan"),
    ],
)
def test_what_cannot_be_trained_on_stops_the_run(
    start: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorldlineError, match=message):
        train(recipe(start, tmp_path / "run", **changes))


def test_an_exploding_run_stops_and_leaves_its_last_checkpoint_whole(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    train(recipe(start, out, updates=2))
    good = _weights(out / "checkpoints" / "update-000002")
    real = loop.assign

    def exploding(*args: Any) -> TokenCredit:
        credit = real(*args)
        return TokenCredit(credit.advantages * float("inf"), credit.returns)

    monkeypatch.setattr(loop, "assign", exploding)
    with pytest.raises(WorldlineError, match="update 3 exploded: .*update-000002 is whole"):
        train(recipe(start, out, resume=True))
    (checkpoint,) = (out / "checkpoints").iterdir()
    assert all(torch.equal(p, q) for p, q in zip(good, _weights(checkpoint), strict=True))


def test_a_step_that_ruins_the_weights_stops_the_run_before_anything_is_saved(start: Path, tmp_path: Path) -> None:
    with pytest.raises(WorldlineError, match="update 1 exploded: .*there is no checkpoint yet"):
        train(recipe(start, tmp_path / "run", update={"lr": 3e37, "mini_batch": 8}, checkpoint_every=1))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_choosing_among_listed_actions_cannot_be_trained(start: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--rollout\.mode"):
        train(recipe(start, tmp_path / "run", rollout={"mode": "choose"}))


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--model"):
        train(recipe(tmp_path, tmp_path / "run"))
