"""The experiment on ALFWorld: its statistics, its rules, and all of its stages with verbs that only pretend."""

import itertools
import json
import statistics
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import paw_alfworld
import paw_stages
import pytest
import run_queue
from paired_differences import area, compare, first_reached, measures, sign_flip, student
from paw_figures import differently_started
from paw_rows import kept
from paw_starts import Walkthrough, demonstrate, searched
from scipy import stats

from worldline import command_line, envs, store
from worldline.paw.recipe import TrainConfig
from worldline.rollout import Episode, Rollout
from worldline.types import WorldlineError


def row(variant: str, seed: int, curve: list[float], start: str = "both", **more: Any) -> dict[str, Any]:
    points = [[5 * i, value] for i, value in enumerate(curve)]
    return {"variant": variant, "seed": seed, "start": start, "curve": points, "training": points} | more


@pytest.mark.parametrize("count", [1, 2, 6, 9])
def test_sign_flips_count_every_choice_of_signs(count: int) -> None:
    differences = np.random.default_rng(count).normal(0.3, 1, count)
    means = [np.mean(differences * signs) for signs in itertools.product((1, -1), repeat=count)]
    extreme = sum(abs(mean) >= abs(differences.mean()) - 1e-12 for mean in means)
    assert sign_flip(differences.tolist()) == pytest.approx(extreme / 2**count)


def test_six_equal_differences_have_the_smallest_p_that_six_pairs_can_have() -> None:
    assert sign_flip([0.07] * 6) == 2 / 64
    assert sign_flip([0.1, -0.1]) == 1


def test_student_is_scipys_test_of_pairs() -> None:
    rng = np.random.default_rng(0)
    plain, paw = rng.normal(0.5, 0.05, 6), rng.normal(0.57, 0.05, 6)
    theirs = stats.ttest_rel(paw, plain)
    mine = student((paw - plain).tolist())
    assert mine is not None
    assert mine.p == pytest.approx(theirs.pvalue)
    assert (mine.low, mine.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert student([0.1]) is None and student([0.1, 0.1]) is None


def test_measures_of_a_run_by_hand() -> None:
    run = row("grpo", 0, [0.1, 0.3, 0.7, 0.6], observation_ce=[[0, 2.0], [15, 1.5]])
    run["pass@4"] = [[0, 0.2], [5, 0.5], [10, 0.8], [15, 0.8]]
    values = measures(run)
    assert values["success"] == pytest.approx((0.3 + 0.7 + 0.6) / 3)
    assert values["area"] == pytest.approx((0.2 + 0.5 + 0.65) / 3)
    run["training"] = [[1, 0.0], [2, 1.0], [3, 1.0]]
    assert measures(run)["area"] == pytest.approx(0.75), "the curve of the rollouts, not of the evaluations"
    assert measures(run)["to_half"] == pytest.approx(1.5)
    run["observation_ce"] = [[0, 2.0]]
    assert np.isnan(measures(run)["observation_ce"]), "measured at the start alone: the run exploded"
    assert values["observation_ce"] == 1.5 and values["pass@4"] == pytest.approx(0.7)
    assert values["to_half"] == pytest.approx(7.5), "half-way between .3 and .7"


def test_a_curve_that_never_reaches_the_level_counts_one_step_more() -> None:
    assert first_reached([(0, 0.1), (5, 0.2), (10, 0.4)], 0.5) == 15
    assert first_reached([(0, 0.6), (5, 0.2)], 0.5) == 0
    assert area([(0, 0.2), (10, 0.4), (30, 0.4)]) == pytest.approx(np.trapezoid([0.2, 0.4, 0.4], [0, 10, 30]) / 30)


def test_pairs_share_seed_and_start() -> None:
    rows = [row("grpo", 0, [0.2]), row("grpo+paw", 0, [0.3]), row("grpo", 1, [0.6]), row("grpo+paw", 1, [0.9])]
    rows += [row("grpo+paw", 2, [0.0]), row("grpo+paw", 0, [0.8], "action"), row("grpo", 0, [0.3], "action")]
    both = compare(rows, "grpo+paw", "grpo", "success", "both")
    assert both is not None and both.differences == pytest.approx({0: 0.1, 1: 0.3})
    assert (both.base_mean, both.arm_mean, both.difference) == pytest.approx((0.4, 0.6, 0.2))
    over_starts = compare(rows, "grpo+paw", "grpo", "success", "all")
    assert over_starts is not None and over_starts.differences == pytest.approx({0: (0.1 + 0.5) / 2}), (
        "seed 1 lacks one"
    )
    assert compare(rows, "gigpo+paw", "gigpo", "success", "both") is None
    assert compare(rows, "grpo+paw", "grpo", "pass@4", "both") is None, "not measured"


def test_a_clone_that_was_made_twice_is_listed() -> None:
    rows = [row("grpo", seed, [0.1], model="a") for seed in (0, 1)] + [row("grpo+paw", 1, [0.1], model="b")]
    assert differently_started(rows) == ["both 1"]


@pytest.mark.parametrize(("slope", "tried"), [(1.5e-3, [100]), (5e-4, [100, 200]), (4e-3, [100, 50]),
                                              (0.9e-3, [100, 200])])  # fmt: skip
def test_the_search_for_a_start_goes_where_the_rule_says(slope: float, tried: list[int]) -> None:
    seen: list[int] = []
    number = searched(lambda n: seen.append(n) or slope * n, 100, (0.1, 0.2))  # type: ignore[func-returns-value]  # notes the call, then answers
    assert seen == tried and number == tried[-1]


def test_between_too_few_and_too_many_the_search_goes_to_the_geometric_mean() -> None:
    steep = {100: 0.05, 200: 0.4, 141: 0.3, 119: 0.15}
    assert searched(steep.__getitem__, 100, (0.1, 0.2)) == 119
    with pytest.raises(WorldlineError, match="no clone with a success between"):
        searched(lambda n: 0.5 if n > 7 else 0.0, 100, (0.1, 0.2))


def test_of_rates_that_are_as_good_the_smallest_is_taken() -> None:
    assert paw_stages.chosen_rate({1e-5: 0.30, 3e-5: 0.49, 1e-4: 0.50}, 0.015) == 3e-5
    assert paw_stages.chosen_rate({1e-5: 0.30, 3e-5: 0.40, 1e-4: 0.50}, 0.015) == 1e-4


@pytest.mark.parametrize(
    ("env", "judged_error", "start_error"), [("alfworld", 0.015, 0.0155), ("webshop", 0.0215, 0.025)]
)
def test_the_fixed_settings_are_those_of_the_protocol(env: str, judged_error: float, start_error: float) -> None:
    plan = paw_alfworld.PLANS[env]
    episodes, repeats = plan.train["evaluation.episodes"], plan.train["evaluation.repeats"]
    assert (0.25 / episodes * (1 + 2 * 0.25) / 3) ** 0.5 <= judged_error, "of the mean of three that correlate by .25"
    assert episodes % repeats == 0 and repeats >= 4
    middle = sum(plan.window) / 2
    assert (middle * (1 - middle) / plan.episodes) ** 0.5 < start_error, "of a start in the middle of its window"
    assert (env != "alfworld") or (episodes // repeats == 140 and plan.steps == 30)
    assert plan.train["updates"] >= 30 and paw_alfworld.SEEDS >= 6
    assert {arm for phase in plan.phases for arm in phase} == plan.arms.keys()
    assert not {*plan.tune_seeds.values()} & {*range(paw_alfworld.SEEDS)}, "the rate is chosen with other seeds"


@pytest.mark.parametrize("arm", paw_alfworld.ARMS)
def test_every_arm_is_a_command_that_differs_in_its_own_settings_alone(arm: str, tmp_path: Path) -> None:
    def read(arm: str) -> TrainConfig:
        given = paw_stages.Given("alfworld", tmp_path, data=tmp_path)
        task = paw_stages.Stages(paw_alfworld.ALFWORLD, given)._task(
            paw_stages.Run("run", "both", arm, 3, 3e-5), tmp_path
        )
        assert task.words[:4] == (*paw_stages.WORLDLINE, "train")
        return command_line.read(TrainConfig, task.words[4:])

    config, plain = read(arm), read("grpo")
    assert (config.updates, config.groups, config.group_size, config.max_steps, config.seed) == (30, 16, 8, 30, 3)
    assert (config.update.kl, config.update.lr, config.credit.penalty, config.precision) == (
        0.01,
        3e-5,
        "format",
        "bf16",
    )
    assert (config.evaluation.split, config.evaluation.episodes) == ("valid_seen", 560)
    own = {"algo": plain.algo, "wm": plain.wm, "world": plain.world, "out": plain.out}
    assert config.model_copy(update=own) == plain
    assert config.algo == arm.split("+")[0]
    assert config.wm == ("paw" if "paw" in arm else "echo" if "echo" in arm else "off")
    paper = (0.75, 0.2, "adaptive") if config.wm == "paw" else None
    changed = {"lambda=1": (0.75, 0.2, "constant"), "rho=1": (0.75, 1.0, "adaptive")}.get(arm.split()[-1], paper)
    assert changed in (None, (config.world.alpha, config.world.rho, config.world.coefficient))


def test_walkthroughs_win_the_games_they_belong_to(tmp_path: Path) -> None:
    world = envs.load("household", None, {"level": "tiny"})
    demonstrate(world, tmp_path / "log", 3, walkthroughs=True)
    games = list(store.read(tmp_path / "log"))
    assert [game.task_id for game in games] == [world.get_task("train", index) for index in range(3)]
    assert all(game.success for game in games)
    assert [tuple(step.action for step in game.steps) for game in games] == [
        tuple(world.walkthrough(game.task_id)) for game in games
    ]


def test_games_that_take_too_long_are_not_demonstrated(tmp_path: Path) -> None:
    world = envs.load("household", None, {"level": "tiny"})
    lengths = {task: len(world.walkthrough(task)) for task in (world.get_task("train", index) for index in range(20))}
    quick = [task for task, length in lengths.items() if length <= min(lengths.values())]
    assert len(quick) < len(lengths)
    demonstrate(world, tmp_path / "log", len(quick), walkthroughs=True, longest=min(lengths.values()))
    assert [game.task_id for game in store.read(tmp_path / "log")] == quick
    with pytest.raises(WorldlineError, match="won in at most 1 steps"):
        demonstrate(world, tmp_path / "none", 1, walkthroughs=True, longest=1)


@pytest.mark.data
def test_the_walkthroughs_of_official_games_win(shared_data: Path) -> None:
    world: Any = envs.load("alfworld", shared_data / "alfworld" / "native_sample", {})
    split = world.splits()[0]
    games = [Episode(str(i), world.get_task(split, i), split, i) for i in range(world.num_tasks(split))]
    played = list(Rollout(world, Walkthrough(world.walkthrough)).play(games))
    assert len(played) == 6 and all(game.success for game in played)


def test_an_exploded_run_has_no_success_from_there_on(tmp_path: Path) -> None:
    lines = [{"update": 0, "eval_success": 0.2, "eval_pass@4": 0.5}, {"update": 1, "success": 0.3, "seconds_update": 2}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "inputs.json").write_text('{"model": "abc"}')
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "env.json").write_text('{"devices": ["cpu"], "packages": {}}')
    whole = kept(tmp_path, {"evaluation.every": 2, "evaluation.first": 3, "updates": 5})
    assert whole["curve"] == [[0, 0.2], [4, 0.0], [5, 0.0]]
    assert whole["training"] == [[1, 0.3], [2, 0.0], [3, 0.0], [4, 0.0], [5, 0.0]]
    assert whole["phases"]["update"] == 2 and whole["model"] == "abc"
    assert kept(tmp_path)["curve"] == [[0, 0.2]]
    assert kept(tmp_path)["training"] == [[1, 0.3]]


def task(tmp_path: Path, name: str, code: str, ends: dict[str, int]) -> run_queue.Task:
    def ended(exit_code: int, seconds: float) -> bool:
        ends[name] = exit_code
        return exit_code == 0

    return run_queue.Task(name, (sys.executable, "-S", "-c", code), tmp_path / f"{name}.log", ended)


def test_the_queue_stops_when_the_time_is_up(tmp_path: Path) -> None:
    ends: dict[str, int] = {}
    tasks = [task(tmp_path, "quick", "print(1)", ends), task(tmp_path, "bad", "raise SystemExit(4)", ends)]
    tasks += [task(tmp_path, name, "import time; time.sleep(60)", ends) for name in ("long", "waiting")]
    begun = time.monotonic()
    ended = run_queue.play(tasks, 1, 9.0, clock=lambda: 10.0 if (tmp_path / "long.log").exists() else 0.0)
    assert time.monotonic() - begun < 40, "the long one was stopped"
    assert (ended.done, ended.failed, ended.left) == (("quick",), ("bad",), ("long", "waiting"))
    assert ends == {"quick": 0, "bad": 4}, "a run that was stopped leaves no result"


@pytest.mark.parametrize(
    ("jobs", "given", "settings"),
    [
        (1, {}, "None None"),
        (2, {}, "expandable_segments:True None"),
        (2, {"PYTORCH_ALLOC_CONF": "backend:native"}, "None backend:native"),
    ],
    ids=["alone", "beside others", "as the user says"],
)
def test_processes_beside_each_other_hold_no_unused_memory_of_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, given: dict[str, str], settings: str
) -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code = "import os; print(*map(os.environ.get, ('PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF')))"
    run_queue.play([task(tmp_path, "printed", code, {})], jobs)
    assert (tmp_path / "printed.log").read_text(encoding="utf-8").strip() == settings


def test_what_cannot_end_in_time_is_not_begun(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    tasks = [task(tmp_path, name, f"open({str(mark)!r}, 'w')", {}) for name in ("first", "second")]
    ended = run_queue.play(tasks, 1, 10.0, clock=lambda: 6.0 if mark.exists() else 0.0)
    assert (ended.done, ended.left) == (("first",), ("second",)), "4 seconds are left, and the first took 6"
    assert not (tmp_path / "second.log").exists()


VERBS = textwrap.dedent("""
    # Pretends to be worldline: a clone's success is its walkthroughs / 1000; PaW and a rate are worth .1 each.
    import json, pathlib, sys
    verb, *words = sys.argv[1:]
    flags = {w: v for w, v in zip(words, words[1:]) if w.startswith("--")}
    with open(pathlib.Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(verb + " " + flags.get("--out", "") + "\\n")
    if verb == "sft":
        (pathlib.Path(flags["--out"]) / "model").mkdir(parents=True)
        print("{}")
    elif verb == "collect":
        number = int(pathlib.Path(flags["--policy"]).parent.name.split("-")[-1])
        print(json.dumps({"success": number / 1000, "episodes": 560, "mean_length": 20, "invalid_actions": 3}))
    else:
        out = pathlib.Path(flags["--out"])
        out.mkdir(parents=True, exist_ok=True)
        best = "3e-06" if "action" in flags["--out"] else "1e-05"
        gain = 0.1 * (flags["--wm"] == "paw") + 0.1 * (flags["--update.lr"] == best)
        noise = 0.001 * int(flags["--seed"]) * (1 + (flags["--wm"] == "paw"))
        lines = [{"update": u, "success": 0.2, "eval_success": 0.1 + (gain + noise) * u / 2, "eval_pass@4": 0.5,
                  "eval_observation_ce": 1.0 - gain} for u in range(3)]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
        (out / "inputs.json").write_text(json.dumps({flags["--model"]: "weights"}))
        (out / "config.json").write_text(json.dumps(flags))
        (out / "env.json").write_text(json.dumps({"devices": ["cpu"], "packages": {}}))
""")


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that every stage gets: a rehearsal in the generated household, with verbs that only pretend."""
    (tmp_path / "verbs.py").write_text(VERBS)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    monkeypatch.setattr(paw_stages, "WORLDLINE", (sys.executable, "-S", str(tmp_path / "verbs.py")))
    plan = replace(paw_alfworld.ALFWORLD, first=3, window=(0.005, 0.01), options={"level": "tiny"})
    monkeypatch.setitem(paw_alfworld.PLANS, "household", plan)
    return ["household", "--model", str(tmp_path / "base"), "--out", str(tmp_path / "out"), "--seeds", "3"]


def test_all_stages_go_on_where_they_stopped(stages: list[str], tmp_path: Path) -> None:
    calls, results = tmp_path / "calls.txt", tmp_path / "out" / "household" / "results"
    result = tmp_path / "result.json"

    def play(stage: str, *words: str) -> int:
        return paw_alfworld.main([stage, *stages, *words])

    assert play("run") == 2, "no rate yet"
    assert play("clone") == 0
    assert sorted(path.stem for path in results.iterdir()) == sorted(f"clone-{s}-{n}" for s in ("action", "both")
                                                                     for n in (3, 6))  # fmt: skip
    assert play("tune", "--jobs", "4") == 0
    assert play("run", "--minutes", "0") == 3, "there is more to do"
    assert play("run", "--jobs", "4", "--arms", "grpo", "grpo+paw") == 0
    before = calls.read_text()
    assert play("run", "--arms", "grpo", "grpo+paw") == 0
    assert calls.read_text() == before, "nothing is done twice"
    (results / "run-both-grpo-paw-2.json").unlink()  # as if it had not been finished on another day
    assert play("run", "--arms", "grpo", "grpo+paw") == 0
    assert calls.read_text().count("run-both-grpo-paw-2") == 2

    assert play("figures", "--result", str(result)) == 0
    content = json.loads(result.read_text())
    assert content["rates"] == {"action": 3e-6, "both": 1e-5}
    assert content["clones"]["both"] == {"3": 0.003, "6": 0.006}
    assert len(content["rows"]) == 12 and content["pairs_with_different_starts"] == []
    first = next(c for c in content["comparisons"] if (c["measure"], c["start"]) == ("success", "all"))
    expected = [(0.1 + 0.001 * seed) / 2 for seed in range(3)]  # the mean over updates 0, 1, 2 is half of the last
    assert [*first["differences"].values()] == pytest.approx(expected)
    assert first["p_sign_flip"] == 2 / 8
    assert first["p_student"] == pytest.approx(stats.ttest_1samp(expected, 0).pvalue)
    assert first["difference"] == pytest.approx(statistics.mean(expected))
    svg = result.with_suffix(".svg").read_text()
    assert all(f"<!-- household, {start}: grpo -->" in svg for start in ("action", "both")), "a panel each"


def test_results_of_other_settings_are_refused(
    stages: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paw_alfworld.main(["clone", *stages, "--starts", "both"]) == 0
    plan = paw_alfworld.PLANS["household"]
    monkeypatch.setitem(paw_alfworld.PLANS, "household", replace(plan, clone={**plan.clone, "epochs": 9}))
    assert paw_alfworld.main(["clone", *stages, "--starts", "both"]) == 2
    assert "was made with other settings" in capsys.readouterr().err
    absent = [word.replace("base", "absent") for word in stages]
    assert paw_alfworld.main(["clone", *absent]) == 2
    assert "absent: no such folder" in capsys.readouterr().err
