"""The official games: located, read, played, solved; and a clear line where they cannot be."""

import json
import lzma
import pickle
import sys
from pathlib import Path

import pytest

from worldline.collect import CollectConfig, collect
from worldline.envs.alfworld import AlfworldConfig, AlfworldWorld
from worldline.types import Environment, Exchange, InputError, Turn, World, WorldlineError

sys.path.insert(0, str(Path(__file__).with_name("household")))
from household_playing import play
from official import GRAMMAR, PROBLEM, WALKTHROUGH, write_game


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """Two playable games, and three that the official package leaves out as well."""
    split = tmp_path / "json_2.1.1" / "valid_seen"
    write_game(split / "pick_heat-Mug" / "trial_2")
    write_game(split / "pick_heat-Mug" / "trial_1")
    write_game(split / "pick_heat-Mug" / "trial_3", solvable=False)
    write_game(split / "pick_and_place_with_movable_recep-Mug" / "trial_1")
    write_game(split / "pick_heat-MugSliced" / "trial_1")
    return tmp_path


def compact(folder: Path, lines: list[str], suffix: str = ".jsonl.xz") -> Path:
    (folder / "alfred.twl2").write_text(GRAMMAR.replace("put a hot mug in shelf.", "UNKNOWN GOAL"))
    data = "\n".join(lines).encode()
    path = folder / f"games_train{suffix}"
    path.write_bytes(lzma.compress(data) if suffix.endswith("xz") else data)
    return path


def line(**changes: object) -> str:
    game = {"task": "pick_heat-Mug", "trial": "trial_1", "solvable": True, "pddl_problem": PROBLEM}
    described = {"task_desc": "Your task is to: put a hot mug in shelf.", "walkthrough": WALKTHROUGH}
    return json.dumps({**game, **described, **changes})


def test_native_games_are_listed_without_those_left_out(native: Path) -> None:
    world = AlfworldWorld(native)
    assert isinstance(world, World)
    assert isinstance(world.make(), Environment)
    assert world.splits() == ("valid_seen",)
    tasks = [world.get_task("valid_seen", index) for index in range(world.num_tasks("valid_seen"))]
    assert sorted(tasks) == ["valid_seen/pick_heat-Mug/trial_1", "valid_seen/pick_heat-Mug/trial_2"]
    assert AlfworldWorld(native / "json_2.1.1").get_task("valid_seen", 1) == tasks[1]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.xz"])
def test_both_forms_play_the_same(native: Path, tmp_path: Path, suffix: str) -> None:
    compact(tmp_path, [line(trial="trial_2"), line(), line(trial="trial_0", solvable=False)], suffix)
    (tmp_path / "json_2.1.1" / "valid_seen").rename(tmp_path / "json_2.1.1" / "valid_unseen")
    world = AlfworldWorld(tmp_path)
    assert world.splits() == ("train", "valid_unseen")
    assert world.num_tasks("train") == 2
    env = world.make()
    spoken = {}
    for split in world.splits():
        task = world.get_task(split, 0)
        observation, info = env.reset(task=task)
        assert info["goal"] == "put a hot mug in shelf."
        answers = [env.step(command) for command in world.walkthrough(task)]
        spoken[split] = [observation, *[answer[:4] for answer in answers]]
    assert spoken["train"] == spoken["valid_unseen"]
    assert spoken["train"][-1][1:] == (1.0, True, False)


def test_the_budget_ends_an_episode(native: Path) -> None:
    env = AlfworldWorld(native, AlfworldConfig(max_steps=3)).make()
    env.reset(seed=5)
    assert [env.step("look")[3] for _ in range(3)] == [False, False, True]


def test_a_world_can_be_sent_to_a_worker(native: Path) -> None:
    world = AlfworldWorld(native)
    task = world.get_task("valid_seen", 0)
    world.engine(task)
    assert pickle.loads(pickle.dumps(world)).make().reset(task=task) == world.make().reset(task=task)


@pytest.mark.parametrize(
    "changes",
    [
        {"pddl_problem": None},
        {"pddl_problem": "(define)"},
        {"grammar": "no words"},
        {"pddl_domain": "(:action Teleport)"},
        {"walkthrough": 7},
    ],
)
def test_a_bad_game_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = write_game(tmp_path / "train" / "task" / "trial", **changes)
    world = AlfworldWorld(tmp_path)
    with pytest.raises(WorldlineError, match=r"game\.tw-pddl") as error:
        world.make().reset(task=world.get_task("train", 0))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_truncated_game_is_named_and_the_others_still_play(native: Path) -> None:
    path = native / "json_2.1.1" / "valid_seen" / "pick_heat-Mug" / "trial_1" / "game.tw-pddl"
    path.write_bytes(path.read_bytes()[:900] + b"\xff")
    world = AlfworldWorld(native)
    with pytest.raises(WorldlineError, match=r"trial_1.*not a readable ALFWorld game"):
        world.make().reset(task="valid_seen/pick_heat-Mug/trial_1")
    summary = collect(CollectConfig(env="alfworld", data=native, policy="expert", episodes=4)).summary()
    assert summary["episodes"] == 2
    assert len(summary["failed"]) == 2
    assert all(str(path) in line and "not a readable ALFWorld game" in line for line in summary["failed"])


def test_bad_compact_files_are_named(tmp_path: Path) -> None:
    path = compact(tmp_path, [line(), "{oops"])
    with pytest.raises(InputError, match="line 2"):
        AlfworldWorld(tmp_path).num_tasks("train")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"games_train\.jsonl\.xz: cannot be read to its end"):
        AlfworldWorld(tmp_path).num_tasks("train")
    compact(tmp_path, [line(pddl_problem="(define)")])
    with pytest.raises(WorldlineError, match=r"line 1.*no \(:init"):
        AlfworldWorld(tmp_path).make().reset(seed=0)
    (tmp_path / "alfred.twl2").unlink()
    with pytest.raises(InputError, match=r"alfred\.twl2: missing"):
        AlfworldWorld(tmp_path).num_tasks("train")


def test_missing_data_is_said_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        AlfworldWorld(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"json_2\.1\.1"):
        AlfworldWorld(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match="no games in it"):
        AlfworldWorld(tmp_path).num_tasks("train")
    with pytest.raises(InputError, match="no ALFWorld split 'valid_seen'"):
        AlfworldWorld(tmp_path).num_tasks("valid_seen")


def test_unknown_tasks_are_refused(native: Path) -> None:
    world = AlfworldWorld(native)
    with pytest.raises(InputError, match="2 games"):
        world.get_task("valid_seen", 2)
    with pytest.raises(InputError, match="SPLIT/TASK/TRIAL"):
        world.make().reset(task="valid_seen/nothing")


def wins(world: AlfworldWorld, task: str) -> bool:
    env = world.make()
    env.reset(task=task)
    results = [env.step(command) for command in world.walkthrough(task)]
    return results[-1][4]["won"] and results[-1][1] == 1.0 and not any(result[2] for result in results[:-1])


@pytest.fixture(scope="module")
def official(shared_data: Path) -> AlfworldWorld:
    return AlfworldWorld(shared_data / "alfworld")


@pytest.mark.data
def test_every_stored_walkthrough_wins(official: AlfworldWorld) -> None:
    assert official.num_tasks("valid_seen") == 140
    assert all(wins(official, official.get_task("valid_seen", index)) for index in range(140))
    assert official.num_tasks("train") == 3553
    assert all(wins(official, official.get_task("train", index)) for index in range(0, 3553, 37))


@pytest.mark.data
def test_the_first_tasks_of_a_split_are_a_fair_sample(official: AlfworldWorld) -> None:
    families = [official.get_task("train", index).split("/")[1].split("-")[0] for index in range(3553)]
    for family in set(families):
        share = families.count(family) / len(families)
        assert families[:300].count(family) == pytest.approx(300 * share, abs=3 * (300 * share * (1 - share)) ** 0.5)


@pytest.mark.data
def test_native_sample_plays(shared_data: Path) -> None:
    world = AlfworldWorld(shared_data / "alfworld" / "native_sample")
    assert world.splits() == ("valid_unseen",)
    assert world.num_tasks("valid_unseen") == 6
    assert all(wins(world, world.get_task("valid_unseen", index)) for index in range(6))


@pytest.mark.data
def test_the_expert_reads_official_games(official: AlfworldWorld) -> None:
    returns = [
        play(official.make(), official.get_task("valid_seen", index), official.expert)[0] for index in range(0, 140, 2)
    ]
    assert sum(returns) / len(returns) >= 0.95


@pytest.mark.data
def test_logged_human_readable_texts_can_be_replayed(official: AlfworldWorld) -> None:
    """A turn of an official game holds all the expert needs, also when read from a log."""
    _, history = play(official.make(), official.get_task("valid_seen", 3), official.expert)
    for number, step in enumerate(history):
        past = [Exchange(step.observation, step.action) for step in history[:number]]
        goal = history[0].observation.rpartition("\n\n")[2]
        assert official.expert(Turn("household", goal, step.observation, None, past)) == step.action
