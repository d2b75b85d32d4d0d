"""ScienceWorld: its tasks without starting it, the error where it is missing, and the simulator itself."""

import gc
import gzip
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from worldline.envs import load
from worldline.envs.scienceworld.world import SPLITS, VARIATIONS, variations
from worldline.rollout import Episode, Rollout
from worldline.sft.demonstrations import Blundering
from worldline.types import Exchange, InputError, LazyActions, Turn, World, WorldlineError

package = importlib.util.find_spec("scienceworld")
"""Without an origin it is only the folder of tests of that name."""
simulated = pytest.mark.skipif(
    package is None or package.origin is None or shutil.which("java") is None,
    reason="needs the extra 'scienceworld' and a Java runtime",
)


@pytest.mark.data
def test_variations_and_splits_are_the_official_ones(shared_data: Path) -> None:
    official = json.loads((shared_data / "scienceworld" / "task_variations.json").read_text())
    assert set(official) == set(VARIATIONS)
    for task, counts in official.items():
        assert counts["max_variations"] == VARIATIONS[task]
        assert {split: len(variations(task, split)) for split in SPLITS} == {s: counts[s] for s in SPLITS}
        assert [v for split in SPLITS for v in variations(task, split)] == list(range(VARIATIONS[task]))
    totals = [sum(len(variations(task, split)) for task in VARIATIONS) for split in SPLITS]
    assert totals == [3592, 1796, 1819]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scienceworld", None)
    with pytest.raises(InputError, match=r"pip install 'worldline\[scienceworld\]'"):
        load("scienceworld")


@simulated
def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="needs a Java runtime"):
        load("scienceworld")


@simulated
def test_the_shipped_recipe_names_tasks_that_are_there() -> None:
    recipe = yaml.safe_load((Path(__file__).parents[3] / "recipes" / "scienceworld-clone.yaml").read_text())
    world = load("scienceworld", options=recipe["options"])
    assert {world.get_task("train", index).rpartition("/")[0] for index in range(9)} == {
        *("find-animal", "find-living-thing", "find-non-living-thing", "find-plant"),
        *("lifespan-longest-lived", "lifespan-longest-lived-then-shortest-lived", "lifespan-shortest-lived"),
        *("use-thermometer", "test-conductivity-of-unknown-substances"),
    }


@pytest.fixture(scope="module")
def world() -> World:
    return load("scienceworld", options={"max_steps": 1000})


@pytest.fixture(scope="module")
def gold(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "scienceworld" / "gold_trajectories.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@simulated
def test_any_prefix_of_the_tasks_is_balanced(world: World) -> None:
    assert len({world.get_task("dev", index).split("/")[0] for index in range(30)}) == 30
    assert world.num_tasks("train") == 3592
    few = load("scienceworld", options={"tasks": ["boil", "melt"]})
    # dev has the variations 14 to 20 of both: a prefix is spread over them, and the whole is all of them
    assert [few.get_task("dev", index) for index in range(6)] == [
        *("boil/14", "melt/14", "boil/18", "melt/18", "boil/16", "melt/16")
    ]
    assert {few.get_task("dev", index) for index in range(14)} == {
        f"{task}/{variation}" for task in ("boil", "melt") for variation in range(14, 21)
    }
    with pytest.raises(InputError, match="did you mean 'boil'"):
        load("scienceworld", options={"tasks": ["boli"]})
    named = load("scienceworld", options={"tasks": ["melt", "find-*"]})
    assert {named.get_task("train", index).split("/")[0] for index in range(named.num_tasks("train"))} == {
        *("find-animal", "find-living-thing", "find-non-living-thing", "find-plant", "melt")
    }
    with pytest.raises(InputError, match=r"no task 'bake-\*'"):
        load("scienceworld", options={"tasks": ["bake-*"]})


@simulated
@pytest.mark.data
def test_solutions_replay_to_the_recorded_scores(world: World, gold: list[dict[str, Any]]) -> None:
    short = sorted(gold, key=lambda row: len(row["steps"]))[:4]
    failing = next(row for row in gold if not row["success"])
    environment = world.make()
    for row in [*short, failing]:
        observation, info = environment.reset(task=row["task_id"])
        assert info["goal"] in row["task"]
        start = info["score"]
        total, over, steps = 0.0, False, iter(row["steps"])
        while not over and (step := next(steps, None)):
            observation, reward, terminated, truncated, info = environment.step(step["action"])
            total, over = total + reward, terminated or truncated
        assert over, observation
        assert info["score"] == pytest.approx(max(row["reward"], start))
        assert (total, info["won"]) == (pytest.approx(info["score"] - start), row["success"])


@simulated
def test_the_list_is_lazy_and_sorted_and_what_is_not_understood_is_marked(world: World) -> None:
    environment = world.make()
    _, info = environment.reset(task="find-plant/0")
    listed = info["admissible"]
    assert isinstance(listed, LazyActions)
    assert not listed.computed
    assert list(listed) == sorted(set(listed))
    assert "reset task" not in listed
    _, reward, _, _, info = environment.step("fly to the moon")
    assert (reward, info["valid"]) == (0.0, False)
    stale = info["admissible"]
    assert stale is not None
    assert environment.step(listed[0])[4]["valid"] is True
    with pytest.raises(WorldlineError, match="after a later step"):
        list(stale)


@simulated
def test_the_expert_wins_and_a_copy_stands_where_the_original_did(world: World) -> None:
    environment = world.make()
    observation, info = environment.reset(task="find-living-thing/3")
    goal, history, over = info["goal"], [], False
    while not over:
        action = world.expert(Turn("", goal, observation, None, tuple(history)))
        if len(history) == 3:
            copy = environment.clone()
            expected = environment.step("look around")[0]
            assert copy.step("look around")[0] == expected
            history.append(Exchange(observation, "look around"))  # a detour does not put the expert off
        history.append(Exchange(observation, action))
        observation, _, terminated, truncated, info = environment.step(action)
        over = terminated or truncated
    assert info["won"]


@simulated
def test_the_expert_told_the_task_solves_two_that_begin_alike_side_by_side(world: World) -> None:
    tasks = ("lifespan-longest-lived/1", "lifespan-longest-lived/61")
    starts = [world.make().reset(task=task) for task in tasks]
    assert starts[0][0] == starts[1][0]
    assert starts[0][1]["goal"] == starts[1][1]["goal"]
    episodes = [Episode(f"x-{n}", task, "train", seed=n) for n, task in enumerate(tasks)]
    played = list(Rollout(world, Blundering(world, 0.0)).play(episodes))
    assert [episode.success for episode in played] == [True, True]
    assert played[0].steps[-1].action != played[1].steps[-1].action


@simulated
def test_the_expert_names_only_what_it_has_seen(world: World) -> None:
    """The simulator's solution focuses on an animal outside without having looked."""
    (played,) = Rollout(world, Blundering(world, 0.0)).play([Episode("x", "lifespan-longest-lived/1", "train", seed=0)])
    *_, before, last = [step.action for step in played.steps]
    assert (before, last) == ("look around", "focus on baby baby brown bear")
    assert "brown bear" in played.steps[-1].observation
    assert not any("bear" in step.observation for step in played.steps[:-1])


@simulated
@pytest.mark.data
def test_stored_solutions_are_followed_by_task(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load("scienceworld", shared_data / "scienceworld" / "gold_trajectories.jsonl.gz")
    monkeypatch.setattr("worldline.envs.scienceworld.world.Simulator", None)  # nothing is worked out anew
    assert stored.expert(Turn("", "", "", None, (), task="lifespan-longest-lived/61")) == "open door to hallway"
    with pytest.raises(InputError, match="no solution for this episode"):
        stored.expert(Turn("", "a goal", "a start", None, ()))


@simulated
def test_the_splits_of_the_simulator_are_ours(world: World) -> None:
    from worldline.envs.scienceworld.simulator import Simulator

    simulator = Simulator()
    java: Any = simulator._java
    assert set(java.getTaskNames()) == set(VARIATIONS)
    for task in ("boil", "identify-life-stages-2", "lifespan-longest-lived"):
        simulator.load(task, 0, "easy")
        theirs = [java.getVariationsTrain(), java.getVariationsDev(), java.getVariationsTest()]
        assert [list(numbers) for numbers in theirs] == [list(variations(task, split)) for split in SPLITS]


@simulated
def test_a_dead_java_process_costs_the_episode_and_the_next_one_starts_another(world: World) -> None:
    from worldline.envs.scienceworld.simulator import _gateway

    environment = world.make()
    environment.reset(task="boil/0")
    _gateway().java_process.kill()
    with pytest.raises(WorldlineError, match="its Java process does not answer"):
        environment.step("look around")
    assert world.make().reset(task="boil/0")[0]


@simulated
def test_a_finished_episode_gives_its_java_memory_back_at_once(world: World) -> None:
    """An episode holds about 12 MB there: without this, some two hundred fill the Java process."""
    from worldline.envs.scienceworld.simulator import _gateway

    def used() -> float:
        java = _gateway().jvm.java.lang
        java.System.gc()
        return float(java.Runtime.getRuntime().totalMemory() - java.Runtime.getRuntime().freeMemory()) / 2**20

    world.make().reset(task="boil/0")
    gc.disable()  # Python's collector would give it back some day: here it has to be at once
    try:
        before = used()
        for _ in range(6):
            world.make().reset(task="boil/0")
        assert used() - before < 30
    finally:
        gc.enable()


@simulated
@pytest.mark.parametrize("task", ["boil", "boil/30", "bake/1"])
def test_tasks_that_are_not_there(world: World, task: str) -> None:
    with pytest.raises(InputError, match="they are named like boil/6"):
        world.make().reset(task=task)
