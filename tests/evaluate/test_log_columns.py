"""The columns of a log against its episodes; groups by any column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from goal_seekers import ZEALS, GoalSeeker, Write

from worldline.evaluate import EvaluateConfig, evaluate
from worldline.evaluate.log_columns import read_columns
from worldline.ope import log as log_module
from worldline.ope import scratch as scratch_module
from worldline.ope.log import ragged_log
from worldline.types import InputError, Trajectory, turns


def test_columns_are_those_of_the_episodes(episodes: list[Trajectory], write: Write) -> None:
    some = [t.model_copy(update={"meta": {"colour": "red" if i % 3 else "blue"}}) for i, t in enumerate(episodes[::9])]
    columns, expected = read_columns([write(some)]), ragged_log(some)
    for name in ("rewards", "behaviour", "offsets", "tasks", "policies", "terminated"):
        np.testing.assert_array_equal(getattr(columns.log, name), getattr(expected, name))
    assert tuple(columns.log.ids) == expected.ids
    assert columns.log.policy_names == expected.policy_names
    assert columns.worlds == ("household",)
    colours = columns.groups("colour")
    assert colours.names == ("blue", "red")
    assert [colours.names[code] for code in colours.codes] == [t.meta["colour"] for t in some]
    assert tuple(columns.groups("family").names) == ("household",)
    assert tuple(columns.groups("task").names) == expected.task_names
    kept = columns.take(np.array([2, 5]))
    assert tuple(kept.log.ids) == (some[2].id, some[5].id)
    few = kept.groups("colour")
    assert [few.names[code] for code in few.codes] == [some[2].meta["colour"], some[5].meta["colour"]]
    assert kept.groups("family").codes.tolist() == [0, 0]
    assert kept.kept.tolist() == [2, 5]


def test_a_missing_log_prob_is_nan(episodes: list[Trajectory], write: Write) -> None:
    steps = (episodes[0].steps[0].model_copy(update={"logprob": None}), *episodes[0].steps[1:])
    log = read_columns([write([episodes[0].model_copy(update={"steps": steps})])]).log
    assert np.isnan(log.behaviour[0])
    assert not np.isnan(log.behaviour[1:]).any()


def test_an_episode_given_twice_is_named(episodes: list[Trajectory], write: Write) -> None:
    folder = write(episodes[:3])
    with pytest.raises(InputError, match=f"'{episodes[0].id}' occurs 2 times"):
        read_columns([folder, folder])


def logprob_file(policy: GoalSeeker, episodes: list[Trajectory], path: Path) -> str:
    rows = []
    for trajectory in episodes:
        scores = policy.logprobs(list(turns(trajectory)), [[step.action] for step in trajectory.steps])
        rows.append({"id": trajectory.id, "logprobs": [float(score[0]) for score in scores]})
    path.write_text("\n".join(map(json.dumps, rows)))
    return f"{path.stem}=logprobs:{path}"


def numbers(value: Any, path: str = "") -> dict[str, float]:
    if isinstance(value, dict):
        return {key: x for name, item in value.items() for key, x in numbers(item, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: x for i, item in enumerate(value) for key, x in numbers(item, f"{path}.{i}").items()}
    return {path: float(value)} if isinstance(value, int | float) else {}


def test_a_log_on_disk_in_many_blocks_is_judged_as_one_in_memory(
    episodes: list[Trajectory], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, audit, balanced loggers, certificate, differences, breakdown: every number of the result."""
    lacking = tuple(step.model_copy(update={"logprob": None}) for step in episodes[5].steps)
    log = [*episodes[:5], episodes[5].model_copy(update={"steps": lacking}), *episodes[6::3]]
    loggers = [logprob_file(GoalSeeker(zeal), log, tmp_path / f"seeker{zeal:g}.jsonl") for zeal in ZEALS]
    candidates = [logprob_file(GoalSeeker(zeal), log, tmp_path / f"zeal{zeal}.jsonl") for zeal in (1, 2)]
    config = EvaluateConfig(
        log=(write(log),), policy=tuple(candidates), logger=tuple(loggers[1:]), by="task", bootstrap=200,
        estimators=("naive", "is", "wis", "pdis", "pdwis", "is-clip", "wis-clip", "pdis-clip", "pdwis-clip"),
    )  # fmt: skip
    whole = evaluate(config)
    balanced = evaluate(config.model_copy(update={"logger": tuple(loggers)}))
    monkeypatch.setattr(log_module, "BLOCK", 100)
    monkeypatch.setattr(scratch_module, "IN_MEMORY", 30)
    assert any("are left out" in note for note in whole.warnings)
    assert any("mixture of all loggers" in note for note in balanced.warnings)
    out = {"out": tmp_path / "out", "overwrite": True}
    for expected, loggers_given in ((whole, loggers[1:]), (balanced, loggers)):
        again = evaluate(config.model_copy(update={"logger": tuple(loggers_given), **out}))
        due, got = numbers(expected.as_dict()), numbers(again.as_dict())
        assert got.keys() == due.keys()
        assert len(due) > 200
        for name, value in due.items():
            drawn = name.startswith((".comparison.p_best", ".comparison.winner"))  # by draws: one in 20,000 may move
            assert got[name] == pytest.approx(value, rel=1e-6, abs=2e-3 if drawn else 1e-9), name
        assert again.warnings == expected.warnings
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["evaluation.json"]
