"""Candidates that are in the log: the mean of their own episodes, in the comparison like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
from goal_seekers import GoalSeeker, Write
from scipy import stats

import worldline
from worldline.cli import main
from worldline.evaluate import EvaluateConfig, Evaluation, evaluate
from worldline.types import InputError, Trajectory


@pytest.fixture
def log(episodes: list[Trajectory], write: Write) -> Path:
    """v2, v3 and v4, no name of any specification; 80 episodes each, of 40 tasks."""
    names = {"seeker0.6": "v2", "seeker1": "v3", "seeker1.6": "v4"}
    changes = [
        {"policy": names[t.policy], "split": f"s{i % 2}", "task_id": f"t{i // 3 % 40}"} for i, t in enumerate(episodes)
    ]
    return write([t.model_copy(update=each) for t, each in zip(episodes, changes, strict=True)][::3])


def own_returns(log: Path, policy: str) -> dict[str, list[float]]:
    """By task."""
    returns: dict[str, list[float]] = {}
    for t in worldline.read(log, policies=[policy]):
        returns.setdefault(t.task_id, []).append(t.episode_return)
    return returns


def mean(log: Path, policy: str) -> float:
    return float(np.mean([value for values in own_returns(log, policy).values() for value in values]))


def judged(log: Path, *policies: str, **settings: object) -> Evaluation:
    return evaluate(EvaluateConfig(log=(log,), policy=policies, **settings))


def test_a_policy_of_the_log_whose_name_looks_like_a_specification(episodes: list[Trajectory], write: Write) -> None:
    """The whole text is looked for in the log first."""
    odd = [t.model_copy(update={"policy": "a b=c:d" if t.policy == "seeker1" else t.policy}) for t in episodes]
    log = write([t.model_copy(update={"epsilon": 0.3}) if t.policy == "a b=c:d" else t for t in odd][::3])
    for text in ("a b=c:d@0.3", "a b=c:d"):
        result = judged(log, text, "seeker0.6")
        assert [policy.label for policy in result.policies] == ["a b=c:d@0.3", "seeker0.6"]
        assert result.value("a b=c:d@0.3", "logged").value == pytest.approx(mean(log, "a b=c:d"))
    renamed = judged(log, "mine=a b=c:d", "seeker0.6")
    assert renamed.policies[0].name == "mine"


def test_the_value_is_the_mean_of_its_own_episodes(log: Path) -> None:
    result, student = judged(log, "v2", "v3", "v4"), judged(log, "v2", "v3", "v4", interval="student-t")
    assert result.estimators == ("logged",)
    for name in ("v2", "v3", "v4"):
        estimate = result.value(name, "logged")
        assert estimate.value == pytest.approx(mean(log, name))
        assert estimate.n == 80
        # every task was played twice by each: Student's interval is that of the tasks' means
        means = [float(np.mean(values)) for values in own_returns(log, name).values()]
        half = stats.t.ppf(0.975, len(means) - 1) * np.std(means, ddof=1) / np.sqrt(len(means))
        assert student.value(name, "logged").low == pytest.approx(mean(log, name) - half)
        assert student.value(name, "logged").high == pytest.approx(mean(log, name) + half)
        assert estimate.low is not None and estimate.low < mean(log, name) - 0.8 * half
    best = max(("v2", "v3", "v4"), key=lambda name: mean(log, name))
    assert result.recommended is not None and result.recommended.policy == best
    assert result.comparison is not None
    p_best = result.comparison.p_best
    assert set(p_best) == {"v2", "v3", "v4"}
    assert sum(p_best.values()) == pytest.approx(1.0)
    assert max(p_best, key=lambda name: p_best[name]) == best
    assert not any(each.b.startswith("logged ") for each in result.comparison.differences)
    for each in result.comparison.differences:
        assert each.value == pytest.approx(mean(log, each.a) - mean(log, each.b))


def test_beside_a_candidate_that_never_ran(log: Path) -> None:
    """The one in the log has its mean by every estimator; the other is estimated as it is without it."""
    names = ("naive", "wis", "lfqe")
    both = judged(log, "v2", "random", estimators=names)
    alone = judged(log, "random", estimators=names)
    for name in names:
        assert both.value("random", name) == alone.value("random", name).model_copy(
            update={"rank": both.value("random", name).rank}
        )
    assert both.value("v2", "wis").value == both.value("v2", "lfqe").value == pytest.approx(mean(log, "v2"))
    assert both.value("v2", "naive").value == alone.value("random", "naive").value
    assert both.comparison is not None
    pairs = {(each.a, each.b) for each in both.comparison.differences}
    assert {("v2", "logged v3"), ("random", "logged v4")} <= pairs and ("v2", "logged v2") not in pairs
    assert any("'v2' is in the log" in note and "80 episodes" in note for note in both.warnings)


def test_by_group_it_is_the_mean_of_the_group(log: Path) -> None:
    result = judged(log, "v2", "v3", by="split")
    assert result.breakdown is not None
    for group in result.breakdown.groups:
        own = [t.episode_return for t in worldline.read(log, policies=["v3"]) if t.split == group.group]
        assert group.estimates["v3"].value == pytest.approx(np.mean(own))


def test_an_api_agent_needs_no_log_probs(episodes: list[Trajectory], write: Write) -> None:
    silent = [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"logprob": None}) for s in t.steps), "policy": "gpt"})
        for t in episodes[:200]
    ]
    folder = write([*silent, *(t.model_copy(update={"policy": "v2"}) for t in episodes[240:540])])
    result = judged(folder, "gpt", "v2")
    assert result.value("gpt", "logged").value == pytest.approx(mean(folder, "gpt"))
    with pytest.raises(InputError, match="--policy gpt: all of its episodes lack log-probs"):
        judged(folder, "gpt", "random")


def test_a_name_with_a_colon_is_a_policy_of_the_log_where_no_such_code_is(
    episodes: list[Trajectory], write: Write
) -> None:
    """API agents, no log-probs. `sample_functions:first` is there to be played; its episodes are logged:NAME."""
    names = {"seeker0.6": "meta-llama/Llama-3", "seeker1": "openai:gpt-5", "seeker1.6": "sample_functions:first"}
    silent = [
        t.model_copy(
            update={
                "steps": tuple(s.model_copy(update={"logprob": None}) for s in t.steps),
                "policy": names[t.policy],
            }
        )
        for t in episodes[::3]
    ]
    log = write(silent)
    result = judged(log, "meta-llama/Llama-3", "openai:gpt-5", "old=openai:gpt-5", "mine=logged:sample_functions:first")
    assert result.value("openai:gpt-5", "logged").value == pytest.approx(mean(log, "openai:gpt-5"))
    assert result.value("old", "logged").value == result.value("openai:gpt-5", "logged").value
    assert result.value("mine", "logged").value == pytest.approx(mean(log, "sample_functions:first"))
    played = judged(log, "sample_functions:first", estimators=("naive",))
    assert not any("is in the log" in note for note in played.warnings)
    # which of two is not in the log is said, and how to write one that is
    few = write([*silent[:60], *episodes[240:540]])
    line = (
        r"--policy meta-llama/Llama-3: all .* because openai:gpt-6 would need them and is not in the log \(logged:NAME"
    )
    with pytest.raises(InputError, match=line):
        judged(few, "meta-llama/Llama-3", "openai:gpt-6")


def test_a_model_of_the_log_that_is_gone_is_offered_as_logged(episodes: list[Trajectory], write: Write) -> None:
    log = write([t.model_copy(update={"policy": "hf:gone/model"}) for t in episodes[:60]])
    with pytest.raises(InputError, match="gone/model.*; for its episodes in the log write logged:hf:gone/model"):
        judged(log, "hf:gone/model")
    assert judged(log, "mine=logged:hf:gone/model").value("mine", "logged").value == mean(log, "hf:gone/model")


def test_epsilons_and_names(episodes: list[Trajectory], write: Write) -> None:
    log = write(
        [t.model_copy(update={"policy": "v2", "epsilon": 0.1 * (1 + i % 2)}) for i, t in enumerate(episodes[:60])]
    )
    assert [policy.label for policy in judged(log, "v2").policies] == ["v2@0.1", "v2@0.2"]
    assert [policy.label for policy in judged(log, "v2@0.1").policies] == ["v2@0.1"]
    renamed = judged(log, "old=logged:v2@0.1", "random", epsilon=(0.3,), estimators=("wis",))
    assert [policy.label for policy in renamed.policies] == ["old@0.1", "random@0.3"]
    with pytest.raises(InputError, match="two candidates are called 'v2@0.1'"):
        judged(log, "v2", "v2@0.1")
    with pytest.raises(InputError, match="no policy of the log is called 'v3': its policies are v2, v2@0.1, v2@0.2"):
        judged(log, "v3")
    with pytest.raises(InputError, match="--interval bernstein: not for a policy of the log"):
        judged(log, "v2@0.1", interval="bernstein", bounds=(0, 1))


def test_a_specification_of_that_name_comes_first(episodes: list[Trajectory], write: Write) -> None:
    log = write([t.model_copy(update={"policy": "random"}) for t in episodes[:120]])
    assert judged(log, "random", estimators=("naive", "wis")).estimators == ("naive", "wis")
    assert judged(log, "mine=logged:random").value("mine", "logged").value == pytest.approx(mean(log, "random"))
    given = evaluate(EvaluateConfig(log=(log,), estimators=("wis",)), {"random": GoalSeeker(0.6)})
    assert not any("is in the log" in note for note in given.warnings)


def test_episodes_that_all_ended_alike_are_flagged(episodes: list[Trajectory], write: Write) -> None:
    won = [t.model_copy(update={"policy": "v2"}) for t in episodes if t.episode_return == 1.0][:30]
    assert "the same return" in (judged(write(won), "v2").value("v2", "logged").flag or "")


def test_other_tasks_are_flagged(episodes: list[Trajectory], write: Write) -> None:
    tasks = sorted({t.task_id for t in episodes})
    own = {"v2": tasks[:4], "v3": tasks[4:]}
    log = [t.model_copy(update={"policy": name}) for name in own for t in episodes[:240] if t.task_id in own[name]]
    log = [t.model_copy(update={"id": f"{t.policy}-{t.id}"}) for t in log]
    assert "played other tasks" in (judged(write(log), "v2", "v3").value("v2", "logged").flag or "")


def test_from_the_command_line_and_on_the_page(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "--log", str(log), "--policy", "v2", "v3", "--out", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 0
    values = {p["name"]: p["estimates"]["logged"]["value"] for p in json.loads(capsys.readouterr().out)["policies"]}
    assert values == {name: pytest.approx(mean(log, name)) for name in ("v2", "v3")}
    page = worldline.report(tmp_path / "out").path.read_text()
    assert "these are the means of their own episodes" in page


def test_no_table_of_dashes_and_a_pointer_to_compare(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy of the log has no weights to tell of; beside one that has, only that one stands in the table."""
    pointer = "worldline compare --metric return pairs their episodes by task, quote its interval"
    assert main(["evaluate", "--log", str(log), "--policy", "v2", "v3"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert pointer in out and "largest" not in out and "│ - │" not in out
    assert "What the log can tell: 240 episodes" in out
    assert main(["evaluate", "--log", str(log), "--policy", "v2", "random", "--estimators", "wis"]) == 0
    out = capsys.readouterr().out
    assert pointer not in " ".join(out.split()) and "largest" in out
    diagnostics = out.partition("What the log can tell")[2].partition("└")[0]
    assert " random " in diagnostics and " v2 " not in diagnostics
