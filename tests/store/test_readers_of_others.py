"""A log folder as other people's tools read it: `datasets`, polars and duckdb, with no word of ours in between.

Skipped where the package is not installed: `pip install worldline[readers]`.
"""

from pathlib import Path
from typing import Any

import pytest

from worldline import store
from worldline.store.schema import SCHEMA, STEP
from worldline.types import Step, Trajectory

REASON = "pip install worldline[readers]"


def _episode(number: int) -> Trajectory:
    """Every optional field is there in some episodes and null in others; lists differ in length, texts in script."""
    rich = number % 2 == 0
    steps = tuple(
        Step(
            observation=f"ein Zimmer № {number}.{at}",
            admissible=("auf", "zu", "warten")[: 1 + at] if rich else None,
            action="auf",
            response="→ auf",
            reward=number / 8 + at,
            logprob=-0.5 if rich else None,
            token_ids=tuple(range(at)) if rich else None,
            token_logprobs=tuple(-0.25 * k for k in range(at)) if rich else None,
        )
        for at in range(1 + number % 4)
    )
    return Trajectory(
        id=f"e{number}",
        env="haus",
        task_id=f"t{number % 3}",
        policy="ab"[number % 2],
        steps=steps,
        success=None if number % 5 == 0 else rich,
        meta={"trial": str(number)} if rich else {},
    )


EPISODES = [_episode(number) for number in range(20)]
STEPS = sum(map(len, EPISODES))
RETURNS = [sum(step.reward for step in episode.steps) for episode in EPISODES]
STEP_FIELDS = {field.name for field in STEP}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three shards."""
    with store.StoreWriter(tmp_path / "log", flush_every=8) as writer:
        for episode in EPISODES:
            writer.append(episode)
    assert len(store.shards(tmp_path / "log")) == 3
    return tmp_path / "log"


def _same(row: dict[str, Any], episode: Trajectory) -> None:
    """A row of another tool, as Python's own types."""
    assert set(row) == set(SCHEMA.names)
    assert (row["id"], row["policy"], row["success"]) == (episode.id, episode.policy, episode.success)
    assert {pair["key"]: pair["value"] for pair in row["meta"]} == episode.meta
    assert row["length"] == len(row["steps"]) == len(episode)
    for step, logged in zip(row["steps"], episode.steps, strict=True):
        assert set(step) == STEP_FIELDS
        assert (step["observation"], step["reward"], step["logprob"]) == (
            logged.observation,
            logged.reward,
            logged.logprob,
        )
        for name in ("admissible", "token_ids", "token_logprobs"):
            value = getattr(logged, name)
            assert step[name] == (None if value is None else list(value))


def test_datasets(log: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason=REASON)
    table = datasets.load_dataset("parquet", data_dir=str(log), split="train", cache_dir=str(tmp_path / "cache"))
    assert table.num_rows == len(EPISODES)
    assert table.column_names == SCHEMA.names
    for row, episode in zip(table, EPISODES, strict=True):
        _same(row, episode)


def test_polars(log: Path) -> None:
    polars = pytest.importorskip("polars", reason=REASON)
    frame = polars.read_parquet(f"{log}/*.parquet")
    assert frame.shape == (len(EPISODES), len(SCHEMA.names))
    for row, episode in zip(frame.iter_rows(named=True), EPISODES, strict=True):
        _same(row, episode)
    flat = polars.scan_parquet(f"{log}/*.parquet").explode("steps").unnest("steps").collect()
    assert len(flat) == STEPS
    assert flat["reward"].sum() == pytest.approx(sum(RETURNS))
    means = dict(frame.group_by("policy").agg(polars.col("return").mean()).iter_rows())
    assert means["a"] == pytest.approx(sum(RETURNS[::2]) / 10)


def test_duckdb(log: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason=REASON)
    relation = duckdb.sql(f"SELECT * FROM '{log}/*.parquet'")
    assert relation.columns == SCHEMA.names
    rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    for row, episode in zip(rows, EPISODES, strict=True):
        _same(row, episode)
    (counted,) = duckdb.sql(
        f"SELECT count(*), sum(step.reward) FROM (SELECT unnest(steps) AS step FROM '{log}/*.parquet')"
    ).fetchall()
    assert counted == (STEPS, pytest.approx(sum(RETURNS)))
