"""`worldline compare` against computations by hand, on small logs and on the logs of real agents."""

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest
from scipy import stats

from worldline import store
from worldline.cli import main
from worldline.comparison import CompareConfig, compare, read_comparison
from worldline.comparison.outcomes import read_outcomes
from worldline.types import InputError, Step, Trajectory

DATA = Path(os.environ.get("WORLDLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "trajectories"


def episode(policy: str, task: str, value: float | None, steps: int = 1, **more: object) -> Trajectory:
    reward = float("nan") if value is None else value
    played = tuple(
        Step(observation="o", action="a", reward=reward if k == steps - 1 else 0.0) for k in range(max(steps, 1))
    )
    success = None if value is None else value == 1.0
    name = f"{policy}/{task}/{len(str(more))}/{more.pop('trial', 0)}"
    return Trajectory(id=name, env="e", task_id=task, policy=policy, steps=played, success=success, **more)


def log_of(folder: Path, episodes: list[Trajectory]) -> Path:
    with store.StoreWriter(folder) as writer:
        for one in episodes:
            writer.append(one)
    return folder


def test_by_hand_on_three_tasks(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        [
            *(episode("v2", "a", value, 2, trial=k) for k, value in enumerate((0.0, 1.0))),
            episode("v2", "b", 0.0, 4),
            episode("v2", "c", 1.0, 2, meta={"cost": "2.0"}),
            episode("v3", "a", 1.0, 3),
            episode("v3", "b", 1.0, 3),
            episode("v3", "c", 1.0, 3, meta={"cost": "3.5"}),
            episode("v3", "alone", 0.0),
        ],
    )
    comparison = compare(CompareConfig(log=(log,), policies=("v2", "v3")))
    pair = comparison.pair("v3")
    assert (pair.value, pair.baseline_value, pair.difference.value) == (1.0, 0.5, 0.5)  # of 0.5, 1, 0
    assert (pair.wins, pair.ties, pair.losses, pair.tasks) == (2, 1, 0, 3)
    assert pair.steps.value == pytest.approx((1 - 1 + 1) / 3)
    assert pair.cost is None  # one task is not enough
    assert [(task.task_id, task.value, task.baseline_value) for task in pair.differing] == [
        ("b", 1.0, 0.0),
        ("a", 1.0, 0.5),
    ]
    assert len(pair.differing[1].baseline_episodes) == 2
    assert pair.verdict == "unclear" and "does not tell whether v3 is better than v2" in comparison.answer
    assert "1 of 4 tasks of v3 were played by it alone: they do not count" in pair.warnings
    assert compare(CompareConfig(log=(log,), baseline="v3")).pair("v2").difference.value == -0.5
    with pytest.raises(InputError, match="no comparison of 'x' with 'v2': there are v3"):
        comparison.pair("x")


def test_differences_of_wins_and_losses_end_where_they_must(tmp_path: Path) -> None:
    wins = {"v2": (0.0, 0.0, 1.0), "v3": (1.0, 0.0, 1.0)}
    episodes = [episode(p, f"t{k}", won) for p, values in wins.items() for k, won in enumerate(values)]
    again = [one.model_copy(update={"id": f"{one.id} again"}) for one in episodes]
    log = log_of(tmp_path / "log", [*episodes, *again])
    difference = compare(CompareConfig(log=(log,))).pair("v3").difference
    assert (difference.value, difference.low, difference.high) == (pytest.approx(1 / 3), -1.0, 1.0)
    returned = compare(CompareConfig(log=(log,), metric="return"))
    assert (returned.pair("v3").difference.low, returned.pair("v3").difference.high) == (-1.0, 1.0)
    assert [(each.low, each.high) for each in returned.policies] == [(0.0, 1.0)] * 2
    more = log_of(tmp_path / "more", [episode("v2", "t3", 0.5), episode("v3", "t3", 0.5)])
    wide = compare(CompareConfig(log=(log, more), metric="return")).policies
    assert any(each.low is not None and each.low < 0 for each in wide), "a return of a half: there may be any other"


def test_costs_and_groups(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        [
            episode(policy, f"{kind}-{k}", float(policy == "v3" and kind == "x"), meta={"total_cost": str(cost + k)})
            for policy, cost in (("v2", 1.0), ("v3", 3.0))
            for kind in "xy"
            for k in range(4)
        ],
    )
    pair = compare(CompareConfig(log=(log,), by="task_id:-")).pair("v3")
    assert pair.cost is not None and pair.cost.value == pytest.approx(2.0)
    assert [(group.group, group.tasks, group.difference.value) for group in pair.groups] == [
        ("x", 4, 1.0),
        ("y", 4, 0.0),
    ]
    assert pair.difference.value == 0.5


def test_a_breakdown_splits_the_episodes_of_a_task(tmp_path: Path) -> None:
    """24 of 30 tasks have a day and a night episode of each policy, 6 a day episode alone. By day v3 wins 20 of 30
    and v2 10; by night v3 wins 6 of 24 and v2 18, whatever group a task's first episode is of."""
    episodes = []
    for task in range(30):
        for policy, day, night in (("v2", task < 10, task < 18), ("v3", task < 20, task < 6)):
            episodes.append(episode(policy, str(task), float(day), trial=0, meta={"shift": "day"}))
            if task < 24:
                episodes.append(episode(policy, str(task), float(night), trial=1, meta={"shift": "night"}))
    episodes.append(episode("v3", "0", 0.0, trial=2, meta={"shift": "dusk"}))
    for order, ordered in enumerate((episodes, episodes[::-1])):
        log = log_of(tmp_path / str(order), ordered)
        pair = compare(CompareConfig(log=(log,), by="shift")).pair("v3")
        day, night = pair.groups
        assert (day.group, day.tasks, night.group, night.tasks) == ("day", 30, "night", 24)
        assert (day.value, day.baseline_value) == (pytest.approx(20 / 30), pytest.approx(10 / 30))
        assert (night.value, night.baseline_value) == (pytest.approx(6 / 24), pytest.approx(18 / 24))
        limits = stats.ttest_1samp([-1] * 12 + [0] * 12, 0).confidence_interval()
        assert (night.difference.low, night.difference.high) == (pytest.approx(limits.low), pytest.approx(limits.high))
        assert "--by shift: v3 and v2 have no task in common within dusk" in pair.warnings


def test_episodes_without_an_outcome_are_left_out_with_a_warning(tmp_path: Path) -> None:
    episodes = [episode(policy, str(k), float(k % 2)) for policy in ("v2", "v3") for k in range(6)]
    log = log_of(tmp_path / "log", [*episodes, episode("v3", "9", None)])
    comparison = compare(CompareConfig(log=(log,)))
    assert comparison.metric == "return"  # not every episode says whether it was a success
    assert "1 episodes of v3 do not say how they ended and are left out" in comparison.warnings
    assert comparison.pair("v3").difference.value == 0.0


def test_policies_without_a_task_in_common(tmp_path: Path) -> None:
    episodes = [episode(p, f"{p}{k}", float(k < most)) for p, most in (("v2", 3), ("v3", 8)) for k in range(10)]
    pair = compare(CompareConfig(log=(log_of(tmp_path / "log", episodes),))).pair("v3")
    limits = stats.ttest_ind([1] * 8 + [0] * 2, [1] * 3 + [0] * 7, equal_var=False).confidence_interval()
    assert not pair.paired and pair.difference.value == pytest.approx(0.5)
    assert (pair.difference.low, pair.difference.high) == (pytest.approx(limits.low), pytest.approx(limits.high))
    assert "no task in common" in pair.warnings[0]


def test_the_same_tasks_in_two_environments_are_no_pairs(tmp_path: Path) -> None:
    real, imagined = ([episode(p, str(k), float(k < 5)) for k in range(10)] for p in ("v2", "v3"))
    imagined = [one.model_copy(update={"env": "imagined:W"}) for one in imagined]
    pair = compare(CompareConfig(log=(log_of(tmp_path / "log", [*real, *imagined]),))).pair("v3")
    (line,) = pair.warnings
    assert not pair.paired
    assert line.startswith(
        f"v3 and v2 have task ids in common, but in other environments (imagined:W; {real[0].env}), "
    )


def test_from_two_comparisons_on_a_note_counts_what_chance_makes_of_them(tmp_path: Path) -> None:
    tasks = [str(task) for task in range(20)]
    log = log_of(tmp_path, [episode(f"v{k}", task, 1.0) for k in range(4) for task in tasks])

    def notes(policies: int, confidence: float = 0.95) -> list[str]:
        names = tuple(f"v{k}" for k in range(policies))
        comparison = compare(CompareConfig(log=(log,), policies=names, confidence=confidence))
        return [note for note in comparison.warnings if "comparisons at once" in note]

    assert notes(2) == []
    (two,) = notes(3)
    assert two.startswith("2 comparisons at once: were there no difference at all, 0.1 intervals would leave out 0")
    assert "3 comparisons at once: were there no difference at all, 0.15 intervals" in notes(4)[0]
    assert "0.02 intervals" in notes(3, confidence=0.99)[0]


def test_one_task_in_common_is_no_contradiction(tmp_path: Path) -> None:
    both = [episode(p, "t", float(k < most), trial=k) for p, most in (("v2", 1), ("v3", 3)) for k in range(4)]
    comparison = compare(CompareConfig(log=(log_of(tmp_path / "one", both),)))
    assert "success 0.750 against 0.250 on the one task both played, +0.500." in comparison.answer
    (line,) = comparison.pair("v3").warnings
    assert line.startswith("all episodes of v3 and v2 are of one task, 't', ") and "--map task_id=FIELD" in line
    more = [*both, episode("v2", "x", 0.0), episode("v3", "y", 1.0)]
    comparison = compare(CompareConfig(log=(log_of(tmp_path / "more", more),)))
    assert "on all tasks of each, of which they share one, " in comparison.answer
    assert "have only one task in common" in comparison.pair("v3").warnings[0]


def test_wrong_settings_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meta = {"cost": "0.5", "agent": "x"}
    log = str(log_of(tmp_path / "log", [episode("v2", "a", 1.0, meta=meta), episode("v3", "a", 1.0)]))
    bare = str(log_of(tmp_path / "bare", [episode("v2", "a", 1.0), episode("v3", "a", 1.0)]))
    for words, line in (
        ([log, "--policies", "v2", "v4"], "--policies: the log has no policy 'v4': its policies are v2, v3"),
        ([log, "--policies", "v2"], "two are needed to compare"),
        ([log, "--by", "colour"], "--by colour: no episode has it"),
        ([log, "--cost", "cst"], "--cost cst: no episode has such a number in its meta, which has cost"),
        ([log, "--cost", "agent"], "--cost agent: no episode has such a number in its meta, which has cost"),
        ([bare, "--cost", "cost"], "--cost cost: no episode has such a number in its meta, which has none either"),
        ([log, "--metric", "score"], "--metric score: no episode of 'v2' says it: --metric success or return"),
        ([str(tmp_path / "none")], "no such log"),
    ):
        assert main(["compare", *words]) == 2
        assert line in capsys.readouterr().err


def test_the_file_is_what_was_returned_and_is_not_overwritten(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", [episode(p, str(k), float(k % 2)) for p in ("v2", "v3") for k in range(4)])
    config = CompareConfig(log=(log,), out=tmp_path / "out")
    comparison = compare(config)
    assert read_comparison(tmp_path / "out" / "comparison.json") == comparison
    with pytest.raises(InputError, match="--overwrite replaces it"):
        compare(config)
    (tmp_path / "out" / "comparison.json").write_text('{"metric": 1}')
    with pytest.raises(InputError, match=r"comparison\.json: corrupt"):
        read_comparison(tmp_path / "out" / "comparison.json")


def test_the_tables_fit_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("a-policy-with-a-very-long-name-of-version-2", "a-policy-with-a-very-long-name-of-version-3")
    long = "a-task-with-a-name-that-does-not-end/and-a-trial-of-it/20190908_"
    log = log_of(
        tmp_path / "log",
        [episode(p, f"{long}{k}", float((k * (1 + i)) % 3 == 0)) for i, p in enumerate(names) for k in range(30)],
    )
    assert main(["compare", str(log), "--by", "task_id:_"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("…" in line and "version-3" in line for line in lines)


def test_a_log_without_outcomes_is_told_as_that(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", [episode(p, str(k), None) for p in ("v2", "v3") for k in range(4)])
    with pytest.raises(InputError, match="no episode of 'v2' says its success, return or score: ") as refusal:
        compare(CompareConfig(log=(log,)))
    assert "if it was imported, import its file again with --map reward=FIELD" in str(refusal.value)
    assert "if it was collected, let its environment give rewards that are numbers" in str(refusal.value)


def test_steps_that_were_not_logged_are_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the tasks of which both policies logged the steps count; with none, nothing is shown."""
    outcome = {"meta": {"steps": "not logged"}}
    episodes = [episode(p, str(k), float(k % 2), **outcome) for p in ("v2", "v3") for k in range(4)]
    bare = compare(CompareConfig(log=(log_of(tmp_path / "bare", episodes),), out=tmp_path / "out"))
    assert bare.pair("v3").steps is None and [policy.steps for policy in bare.policies] == [None, None]
    assert read_comparison(tmp_path / "out" / "comparison.json") == bare
    assert main(["compare", str(tmp_path / "bare")]) == 0
    assert "1.0 " not in capsys.readouterr().out
    longer = [episode(p, f"long{k}", 1.0, 3 + 2 * (p == "v3")) for p in ("v2", "v3") for k in range(2)]
    mixed = compare(CompareConfig(log=(log_of(tmp_path / "mixed", [*episodes, *longer]),)))
    assert [policy.steps for policy in mixed.policies] == [3.0, 5.0]
    assert mixed.pair("v3").steps is not None and mixed.pair("v3").steps.value == 2.0
    assert mixed.pair("v3").tasks == 6


def test_what_is_left_off_is_where_the_caption_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_of(tmp_path / "log", [episode(p, str(k), float(p == "v3")) for p in ("v2", "v3") for k in range(17)])
    assert main(["compare", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "9 more: --json, or --out FOLDER" in " ".join(shown.split()) and "comparison.json" not in shown
    assert "task" in shown and "┃  v3┃  v2┃" in shown  # the columns of the values, by name
    out = tmp_path / ("a long way to it " * 6) / "out"
    assert main(["compare", str(log), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "9 more: comparison.json" in " ".join(shown.split())
    assert f"all of it: {out / 'comparison.json'}" in shown.splitlines()  # whole, to be copied


def test_an_unclear_result_says_what_is_missing(tmp_path: Path) -> None:
    """Three wins and six ties: the probability alone would look like an answer."""
    log = log_of(
        tmp_path / "log", [episode(p, str(k), float(p == "v3" and k < 3)) for p in ("v2", "v3") for k in range(9)]
    )
    comparison = compare(CompareConfig(log=(log,)))
    differences = [1.0] * 3 + [0.0] * 6
    chance = 1 - stats.ttest_1samp(differences, 0, alternative="greater").pvalue
    assert f"better {chance:.3f} (the interval holds 0: 'better' needs more than 0.975)" in comparison.answer
    assert comparison.answer.endswith(
        "About 20 tasks would tell in four of five logs, if the difference is as large as here."
    )  # (2.093 + 0.861) * 0.5 / sqrt(20) < 1/3 < (2.101 + 0.862) * 0.5 / sqrt(19)
    reverse = compare(CompareConfig(log=(log,), baseline="v3"))
    assert "(the interval holds 0: 'worse' needs less than 0.025)" in reverse.answer
    loose = compare(CompareConfig(log=(log,), confidence=0.9))
    assert loose.pair("v3").verdict == "better" and "needs" not in loose.answer


def by_hand(rows: list[dict[str, object]], policies: tuple[str, str]) -> dict[str, float]:
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[str(row["policy"])][str(row["task_id"])].append(float(row["reward"]))  # type: ignore[arg-type]  # a column of numbers
    before, after = (values[name] for name in policies)
    differences = [mean(after[task]) - mean(before[task]) for task in before if task in after]
    test = stats.ttest_1samp(differences, 0).confidence_interval()
    return {"value": mean(differences), "low": test.low, "high": test.high, "n": len(differences)}


@pytest.mark.data
@pytest.mark.parametrize("name", ["tau_bench_airline", "knowagent_alfworld"])
def test_real_logs_give_what_ten_lines_by_hand_give(name: str, tmp_path: Path) -> None:
    """tau-bench has one agent and four trials of each task: two pairs of trials play the two policies."""
    source = DATA / f"{name}.jsonl.gz"
    if not source.is_file():
        pytest.skip(f"{source} is not there: the data sets are kept beside the checkout")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    if name.startswith("tau"):
        rows = [{**row, "policy": "early" if row["trial"] < 2 else "late"} for row in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["import", "episodes", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "log"), "--json"]) == 0
    policies = tuple(sorted({row["policy"] for row in rows}))
    pair = compare(CompareConfig(log=(tmp_path / "log",), policies=policies)).pair(policies[1])
    truth = by_hand(rows, policies)
    assert {key: getattr(pair.difference, key) for key in truth} == pytest.approx(truth)
    assert len(read_outcomes([tmp_path / "log"], "", "")) == len(rows)


def test_a_note_where_returns_differ_and_success_does_not(tmp_path: Path) -> None:
    """Both win every task but two; what v3 wins is worth more. The note has the interval of `--metric return`."""
    rewards = {"v2": [1.0 + 0.01 * k for k in range(30)], "v3": [1.5 - 0.01 * k for k in range(30)]}
    log = log_of(
        tmp_path / "log",
        [
            episode(policy, f"t{k}", reward).model_copy(update={"success": k > 1})
            for policy, own in rewards.items()
            for k, reward in enumerate(own)
        ],
    )
    successes, returns = (
        compare(CompareConfig(log=(log,), policies=("v2", "v3"), metric=metric)).pair("v3")
        for metric in ("auto", "return")
    )
    (note,) = successes.warnings
    assert note.startswith("success does not tell, but the return of v3 is higher, by [")
    assert returns.difference.span in note and "--metric return" in note
    assert successes.difference.value == 0
    assert compare(CompareConfig(log=(log,), policies=("v2", "v3"), metric="success")).pair("v3").warnings == ()
