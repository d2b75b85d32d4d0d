"""ScienceWorld: what is known without starting it, what is said where it is missing, and the simulator itself."""

import gzip
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from worldline.envs import load
from worldline.envs.scienceworld.world import SPLITS, VARIATIONS, variations
from worldline.types import Exchange, InputError, LazyActions, Turn, World, WorldlineError

simulated = pytest.mark.skipif(
    importlib.util.find_spec("scienceworld") is None or shutil.which("java") is None,
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
    assert [few.get_task("dev", index) for index in range(3)] == ["boil/14", "melt/14", "boil/15"]
    with pytest.raises(InputError, match="did you mean 'boil'"):
        load("scienceworld", options={"tasks": ["boli"]})


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
    with pytest.raises(WorldlineError, match="after the episode had gone on"):
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
def test_the_splits_of_the_simulator_are_ours(world: World) -> None:
    from worldline.envs.scienceworld.simulator import Simulator

    simulator = Simulator()
    java: Any = simulator._java
    assert set(java.getTaskNames()) == set(VARIATIONS)
    for task in ("boil", "identify-life-stages-2", "lifespan-longest-lived"):
        simulator.load(task, 0, "easy")
        theirs = [java.getVariationsTrain(), java.getVariationsDev(), java.getVariationsTest()]
        assert [list(found) for found in theirs] == [list(variations(task, split)) for split in SPLITS]


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
@pytest.mark.parametrize("task", ["boil", "boil/30", "bake/1"])
def test_tasks_that_are_not_there(world: World, task: str) -> None:
    with pytest.raises(InputError, match="they are named like boil/6"):
        world.make().reset(task=task)
