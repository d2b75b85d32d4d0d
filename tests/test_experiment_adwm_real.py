"""The experiment on real benchmarks: its plans, the order of its parts, what it keeps of episodes, its tables."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import adwm_probe
import adwm_real
import adwm_select
import adwm_tables
import numpy as np
import pytest
import run_queue
from adwm_agents import Agent, Chance
from adwm_cell import drawn, one_by_one
from adwm_episodes import consistency, summary
from adwm_parts import Given, Parts
from adwm_scientists import Scientist
from paw_starts import Walkthrough
from scipy import stats

from worldline import command_line, envs, files
from worldline.adwm.fit import FitConfig
from worldline.collect import CollectConfig
from worldline.evaluate import EvaluateConfig
from worldline.paw.recipe import TrainConfig
from worldline.policies.faulty_expert import Faults
from worldline.rollout import Episode, Rollout
from worldline.types import Decision, Exchange, InputError, Trajectory, Turn


@pytest.fixture
def won() -> list[Trajectory]:
    world: Any = envs.load("household", None, {"level": "tiny"})
    games = [Episode(str(i), world.get_task("train", i), "train", i) for i in range(3)]
    return list(Rollout(world, Walkthrough(world.walkthrough)).play(games))


@pytest.mark.parametrize("env", adwm_real.PLANS)
def test_the_plans_are_those_of_the_protocol(env: str) -> None:
    plan = adwm_real.PLANS[env]
    assert len(plan.loggers) >= 3 and len(plan.targets) >= 10 and plan.swept in plan.targets
    assert not plan.loggers.keys() & plan.targets.keys()
    assert plan.tasks * sum(plan.repeats.get(name, 1) for name in plan.loggers) >= 512
    assert plan.tasks * plan.truth >= 280 and plan.seeds == (2 if env == "webshop" else 3) and plan.cell == 32
    assert plan.epsilons == (0.0, 0.2, 0.4, 0.6, 0.8)
    for player in (*plan.loggers.values(), *plan.targets.values()):
        if isinstance(player, Agent):
            assert (player.checkpoint or 0) <= plan.clones[player.clone].checkpoints
    logged = {player.clone for player in plan.loggers.values() if isinstance(player, Agent)}
    assert not logged & {player.clone for player in plan.targets.values() if isinstance(player, Agent)}


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_every_part_comes_after_the_parts_that_it_needs(scale: str, tmp_path: Path) -> None:
    plan = adwm_real.ALFWORLD if scale == "full" else adwm_real.tiny(adwm_real.ALFWORLD)
    names = Parts(plan, Given("alfworld", tmp_path)).names
    order = list(names)
    for name, needed in names.items():
        assert all(order.index(other) < order.index(name) for other in needed), name
    assert {f"truth.{name}" for name in plan.targets} <= names.keys()
    assert f"truth.{plan.swept}@0.4" in names, "the sweep's truth"


def test_a_swept_policy_is_the_same_but_for_chance() -> None:
    plan = adwm_real.ALFWORLD
    assert plan.player("full-6@0.2") == replace(plan.player("full-6"), epsilon=0.2)  # type: ignore[type-var]  # an agent, which is a dataclass
    scripted = replace(plan, targets={"expert": Faults(chance=0.1)}, swept="expert")
    assert scripted.player(scripted.at(0.4)) == Chance(Faults(chance=0.1), 0.4)
    assert scripted.at(0.0) == "expert"


class Laboratory:
    """A solution of four steps, for an expert that follows it."""

    def solution(self, task: str) -> tuple[str, ...]:
        return ("open door", "go to lab", "focus on wolf", "pick up wolf")

    def expert(self, turn: Turn) -> str:
        return self.solution(turn.task)[len(turn.history)]


def test_a_scientist_follows_the_solution_wastes_time_runs_ahead_or_is_rash() -> None:
    room = "This is the hall. In it, you see: \n\tthe agent\n\ta substance called air\n\ta chair. On it: nothing.\n"
    laboratory: Any = Laboratory()
    past = Exchange(observation=room, action="open door")
    turn = Turn(goal="", history=(past,), observation="It is open.", admissible=None, family="", seed=3, task="t")
    careful = Scientist(0.7, idle=2, ahead=1, rash=1).load(laboratory)
    actions = [
        "go to lab",
        "look around",
        "inventory",
        "open door",
        "focus on wolf",
        "pick up wolf",
        "focus on air",
        "focus on chair",
    ]
    expected = [0.7, *[0.3 * 2 / 4 / 3] * 3, *[0.3 / 4 / 2] * 4]
    assert np.exp(careful.logprobs([turn], [[*actions, "fly"]])[0]) == pytest.approx([*expected, 0.0])
    mixed = Scientist(0.7, idle=2, ahead=1, rash=1, epsilon=0.5).load(laboratory)
    halved = [0.35, *(chance / 2 + 0.5 / 7 for chance in expected[1:])]
    assert np.exp(mixed.logprobs([turn], [actions])[0]) == pytest.approx(halved)
    (decision,) = mixed.act([turn])
    assert decision.logprob == pytest.approx(np.log(halved[actions.index(decision.action)]))
    assert Scientist(1.0).load(laboratory).act([turn])[0].action == "go to lab"
    plan = adwm_real.SCIENCEWORLD
    assert plan.player("master@0.4") == replace(plan.targets["master"], epsilon=0.4)


def test_a_part_gets_the_flags_of_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["alfworld", "--out", str(tmp_path), "--cache-gib", "2", "--scale", "tiny"]
    assert adwm_real.main(["run", *words, "--only", "nothing"]) == 0
    assert "0 of 0 parts" in capsys.readouterr().out
    assert adwm_real.main(["run", "alfworld", "--out", str(tmp_path), "--only", "nothing"]) == 2
    assert "was made with other settings" in capsys.readouterr().err
    line = adwm_real.part_words(
        {"stage": "run", "env": "x", "out": tmp_path, "cache_gib": 2.0, "jobs": 3, "data": None}
    )
    assert line == ["x", "--out", str(tmp_path), "--cache-gib", "2.0"]


def test_fewer_tasks_are_written_down(tmp_path: Path) -> None:
    assert adwm_real.main(["run", "searchqa", "--out", str(tmp_path), "--tasks", "60", "--only", "nothing"]) == 0
    plan = Parts(adwm_real.SEARCHQA, Given("searchqa", tmp_path)).result("plan")
    assert plan == {**adwm_real.settings(adwm_real.SEARCHQA), "tasks": 60}


def test_imagined_successes_are_played_again_in_truth(won: list[Trajectory]) -> None:
    world = envs.load("household", None, {"level": "tiny"})
    lost = won[1].model_copy(update={"steps": won[1].steps[:-1]})  # claims a success without its last action
    failed = won[2].model_copy(update={"success": False})
    assert consistency(world, [won[0], lost, failed]) == {"imagined_successes": 2, "real_successes": 1}
    kept = summary([won[0], failed.model_copy(update={"steps": failed.steps[:1]})])
    assert (kept["value"], kept["success"], kept["episodes"]) == (0.5, 0.5, 2)
    assert kept["length"] == pytest.approx((len(won[0]) + 1) / 2)


def test_starts_are_drawn_evenly_over_the_tasks(won: list[Trajectory]) -> None:
    episodes = [won[0].model_copy(update={"id": str(i), "task_id": f"task-{i // 2}"}) for i in range(18)]
    assert [start.task_id for start in drawn(episodes, 3)] == ["task-0", "task-4", "task-8"]
    assert len(drawn(episodes, 32)) == 9


def test_a_world_without_lists_is_swept_by_policies_that_have_their_own_chance(won: list[Trajectory]) -> None:
    world: Any = envs.load("household", None, {"level": "tiny"})
    walkthrough, tasks = Walkthrough(world.walkthrough), [episode.task_id for episode in won]

    class Idle:
        name = "idle"

        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            return [Decision(action="look", response="look", logprob=0.0) for _ in turns]

    assert one_by_one(world, [walkthrough, Idle(), walkthrough], tasks) == [1.0, 0.0, 1.0]


def test_the_table_of_the_protocol_by_hand() -> None:
    truth, values = [0.7, 0.5, 0.4, 0.2, 0.0], [0.9, 0.6, 0.7, 0.3, 0.2]
    cell = {"truth": truth, "values": {"wm": values, "is": [None] * 5}, "epsilons": [0, 0.2, 0.4, 0.6, 0.8]}
    text = adwm_tables.protocol({"env": "alfworld", "cell": {**cell, "imagining_seconds": {"wm": 12.4}}})
    rho, error = stats.spearmanr(values, truth).statistic, np.mean(np.abs(np.subtract(values, truth)))
    assert f"| {rho:.3f} | {error:.3f} | 12 |" in text
    assert "| `is` | - | - | - | - | - | - | - |  |" in text
    assert "V = -epsilon |  |  |  |  |  | 1.000" in text and ".67 / .482" in text


def test_marks_are_reached_or_missed() -> None:
    assert adwm_tables.judged("spearman", 0.85) == "0.850 yes" and adwm_tables.judged("mae", 0.09) == "0.090 **no**"
    policies = [{"truth": 0.2}, {"truth": 0.8}]
    content = {"best_logged": 0.6, "evaluations": {"0": {"policies": policies}}}
    assert adwm_tables.best_logged(content)[1] == pytest.approx((0.4 + 0.2) / 2)


def test_a_task_waits_for_those_it_comes_after(tmp_path: Path) -> None:
    def task(name: str, code: str, after: tuple[str, ...] = (), needs: tuple[str, ...] = ()) -> run_queue.Task:
        words = (sys.executable, "-S", "-c", code)
        return run_queue.Task(name, words, tmp_path / f"{name}.log", lambda code, seconds: code == 0, after, needs)

    mark = tmp_path / "mark"
    second = task("second", f"open({str(mark)!r})", ("first", "bad"))
    tasks = [second, task("first", f"open({str(mark)!r}, 'w')"), task("bad", "raise SystemExit(1)")]
    ended = run_queue.play(tasks, 3)
    assert ended.done[-1] == "second" and ended.failed == ("bad",), "what it comes after may fail"
    assert run_queue.play([task("never", "", ("never",))], 1).left == ("never",)
    broken = [
        task("fails", "raise SystemExit(1)"),
        task("needy", "", (), ("fails",)),
        task("later", "", (), ("needy",)),
    ]
    ended = run_queue.play([*broken, task("free", "", (), ("done before",))], 3)
    assert (ended.done, ended.failed, ended.left) == (("free",), ("fails",), ("needy", "later"))
    ended = run_queue.play([*broken, task("judge", "", ("later", "needy"))], 3)
    assert ended.done == ("judge",), "what can never begin keeps nobody waiting"


def test_an_evaluation_needs_two_targets(tmp_path: Path) -> None:
    parts = Parts(adwm_real.tiny(adwm_real.ALFWORLD), Given("alfworld", tmp_path))
    with pytest.raises(InputError, match="fewer than two targets"):
        parts.do("evaluate.0")


def test_an_evaluation_is_done_again_where_more_targets_can_be_judged(tmp_path: Path) -> None:
    parts = Parts(adwm_real.tiny(adwm_real.ALFWORLD), Given("alfworld", tmp_path))
    first, second, third, *_ = parts.plan.targets
    for name in (first, second):
        for part in (f"truth.{name}", f"imagine.{name}.0", f"score.{name}"):
            files.write_json(parts.path(part), {"value": 1.0})
    assert not parts.done("evaluate.0")
    judged = {"evaluation": {"policies": [{"name": name} for name in (first, second)]}}
    files.write_json(parts.path("evaluate.0"), judged)
    assert parts.done("evaluate.0")
    for part in (f"truth.{third}", f"score.{third}"):
        files.write_json(parts.path(part), {"value": 1.0})
    assert parts.done("evaluate.0"), "nobody has imagined it yet"
    assert parts.judged("classical") == [first, second, third], "which takes no world model"
    files.write_json(parts.path(f"imagine.{third}.0"), {"value": 1.0})
    assert not parts.done("evaluate.0")


def test_a_chooser_prefers_words_of_the_goal_that_it_has_not_tried() -> None:
    """Two words of the goal against one, once done; at temperature 1 each word counts e^2, each time before e^-1.5."""
    chooser = adwm_probe.Chooser(1.0)
    listed = ("put cup on desk", "take cup 1", "wait")
    done = Exchange("A room.", "put cup on desk")
    turn = Turn("w", "the cup belongs on the desk", "A room.", listed, [done], seed=3)
    (chances,) = chooser.logprobs([turn], [[*listed, "dance"]])
    weights = np.exp([4 - 1.5, 2, 0])
    assert np.exp(chances) == pytest.approx([*(weights / weights.sum()), 0])
    (decision,) = chooser.act([turn])
    assert decision.logprob == pytest.approx(chances[listed.index(decision.action)])


def test_who_picks_which_checkpoint() -> None:
    truth, imagined = {2: 0.4, 4: 0.7, 6: 0.6}, {2: 0.3, 4: 0.5, 6: 0.55}
    chosen = adwm_select.picks(truth, imagined, trained={2: 0.9, 4: 0.2, 6: 0.3})
    assert {name: pick["update"] for name, pick in chosen.items()} == {
        "wm": 6,
        "last": 6,
        "best training reward": 2,
        "oracle": 4,
    }
    assert chosen["best training reward"]["regret"] == pytest.approx(0.3)
    assert adwm_select.regrets([{"picks": chosen}, {"picks": chosen}])["wm"] == pytest.approx(0.1)


def test_the_commands_of_the_selection_are_those_of_worldline(tmp_path: Path) -> None:
    readers: dict[str, Any] = {
        "train": TrainConfig,
        "fit": FitConfig,
        "collect": CollectConfig,
        "evaluate": EvaluateConfig,
    }
    every = adwm_select.tasks(tmp_path, "clone", [0, 1], adwm_select.SCALES["full"])
    for task in every:
        verb, *words = task.words[3:]
        command_line.read(readers[verb], words)
    assert len(every) == 2 * (1 + 1 + 10 + 10)
    assert {name for task in every for name in task.after} <= {task.name for task in every}
