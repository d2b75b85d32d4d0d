"""Log-probs that were computed elsewhere: both formats, any order, some rows at a time; what is wrong in one line."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goal_seekers import GoalSeeker

from worldline.evaluate import logprob_file
from worldline.evaluate.candidates import Scores, cached
from worldline.evaluate.logprob_file import from_file
from worldline.ope.log import RaggedLog, ragged_log
from worldline.ope.text import TextLog, text_log
from worldline.types import InputError, Step, Trajectory


@pytest.fixture(scope="module")
def log(episodes: list[Trajectory]) -> RaggedLog:
    return ragged_log(episodes[:12])


@pytest.fixture(scope="module")
def text(episodes: list[Trajectory]) -> TextLog:
    return text_log(episodes[:12])


def score(policy: GoalSeeker, text: TextLog) -> Scores | None:
    return cached(lambda: policy, None, text, None, lambda what, done, total: None)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_log_probs_from_elsewhere(log: RaggedLog, text: TextLog, tmp_path: Path, suffix: str) -> None:
    expected = score(GoalSeeker(1.0), text)
    assert expected is not None
    assert expected.options is not None
    rows = []
    for episode, name in reversed(list(enumerate(log.ids))):  # the order of the file does not matter
        steps = range(log.offsets[episode], log.offsets[episode + 1])
        listed = [expected.options[text.option_offsets[s] : text.option_offsets[s + 1]].tolist() for s in steps]
        logged = [float(expected.logged[s]) for s in steps]
        rows.append({"id": name, "logprobs": logged, "admissible_logprobs": listed})
    path = tmp_path / f"scores{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    scores = from_file(path, log, lambda: text)
    np.testing.assert_allclose(scores.logged, expected.logged)
    assert scores.options is not None
    np.testing.assert_allclose(scores.options, expected.options)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"id": "other", "logprobs": [-1.0]}, "has no row for episode"),
        ({"logprobs": [-1.0]}, "row 1 must have 'id'"),
        ({"id": "x", "logprobs": [-1.0, -1.0]}, "has 1 steps, 'logprobs' has 2"),
        ({"id": "x", "logprobs": [0.7]}, "0.7 is no log-probability"),
        ({"id": "x", "logprobs": [-1.0], "admissible_logprobs": [[-1.0]]}, "one value per admissible action"),
    ],
)
def test_broken_log_probs_get_a_clear_line(tmp_path: Path, row: dict[str, object], line: str) -> None:
    step = Step(observation="o", admissible=("look", "wait"), action="look", logprob=-1.0)
    one = [Trajectory(id="x", env="e", task_id="t", policy="p", steps=(step,))]
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=line):
        from_file(path, ragged_log(one), lambda: text_log(one))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("order", ["of the log", "any"])
def test_rows_are_read_some_at_a_time(
    log: RaggedLog, tmp_path: Path, suffix: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nulls for 'never', rows of other episodes between, and a batch that is not full."""
    monkeypatch.setattr(logprob_file, "ROWS", 5)
    rng = np.random.default_rng(0)
    expected = -rng.exponential(size=log.steps)
    expected[3] = -np.inf
    rows = []
    for episode, name in enumerate(log.ids):
        own = expected[log.offsets[episode] : log.offsets[episode + 1]]
        rows.append({"id": name, "logprobs": [None if np.isneginf(x) else float(x) for x in own]})
    if order == "any":
        rows.insert(4, {"id": "of another log", "logprobs": [-1.0]})
        rng.shuffle(rows)
    path = tmp_path / f"scores{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    scores = from_file(path, log, lambda: pytest.fail("the text was read"))
    np.testing.assert_array_equal(scores.logged, expected)
    assert scores.options is None


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"id": ["x"], "scores": [[-1.0]]}, "row 1 must have 'id'"),
        ({"id": ["x"], "logprobs": [-1.0]}, "column 'logprobs' holds double, not a list"),
        ({"id": ["x"], "logprobs": [["a"]]}, "no Parquet file of log-probs"),
        ({"id": ["x"], "logprobs": [[float("nan")]]}, "episode 'x': nan is no log-probability"),
        ({"id": ["x"], "logprobs": pa.array([None], pa.list_(pa.float64()))}, "'logprobs' has no list"),
    ],
)
def test_broken_parquet_gets_a_clear_line(tmp_path: Path, table: dict[str, object], line: str) -> None:
    one = [Trajectory(id="x", env="e", task_id="t", policy="p", steps=(Step(observation="o", action="look"),))]
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match=line):
        from_file(path, ragged_log(one), lambda: text_log(one))


def test_a_file_that_is_neither(tmp_path: Path, log: RaggedLog) -> None:
    for name, content in (("scores.parquet", b"PAR1"), ("scores.jsonl", b"\xff{"), ("scores.jsonl", b"[1")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=name):
            from_file(path, log, lambda: pytest.fail("the text was read"))
    with pytest.raises(InputError, match="no such file of log-probs"):
        from_file(tmp_path / "none", log, lambda: pytest.fail("the text was read"))
