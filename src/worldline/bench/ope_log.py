"""A synthetic log as a folder, with candidates as files of log-probs: what `worldline evaluate` costs on a large log.

Time and peak memory are those of the whole command in a process of its own, reading included.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from worldline import files
from worldline.ope.estimation import EstimatorInput
from worldline.store.schema import SCHEMA, STEP
from worldline.types import SCHEMA_VERSION

CANDIDATES = 3
ROW_GROUP = 5000
_LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Runs a command and writes its peak memory. A process inherits the peak of its parent: this one is small."""


def evaluated(evidence: EstimatorInput, estimators: tuple[str, ...], replicates: int, seed: int) -> dict[str, Any]:
    """Seconds and peak memory of one evaluation of three candidates, with differences and P(best)."""
    with tempfile.TemporaryDirectory() as folder:
        candidates = write_log(evidence, Path(folder), seed)
        words = ["evaluate", "--log", str(Path(folder) / "log"), "--policy", *candidates, "--json"]
        words += ["--estimators", *estimators, "--bootstrap", str(replicates), "--gamma", "0.99"]
        begun = time.perf_counter()
        command = [sys.executable, "-c", _LAUNCHER, sys.executable, "-m", "worldline", *words]
        finished = subprocess.run(command, capture_output=True, check=True)
        seconds = time.perf_counter() - begun
    result = json.loads(finished.stdout)
    assert len(result["comparison"]["p_best"]) == CANDIDATES
    peak = int(finished.stderr.split()[-1]) * (1 if sys.platform == "darwin" else 1024)
    return {
        "steps": evidence.log.steps,
        "episodes": evidence.log.episodes,
        "evaluate_seconds": seconds,
        "evaluate_peak_gb": peak / 1e9,
    }


def write_log(evidence: EstimatorInput, folder: Path, seed: int) -> list[str]:
    """The log as one shard, and each candidate's NAME=logprobs:FILE."""
    log, rng = evidence.log, np.random.default_rng(seed)
    offsets = pa.array(log.offsets.astype(np.int32))
    logged = {"reward": pa.array(log.rewards), "logprob": pa.array(log.behaviour), "valid": pa.repeat(True, log.steps)}
    texts = {"observation": "you see a drawer", "action": "open the drawer", "response": "open the drawer"}
    columns = [_column(field, log.steps, logged, texts) for field in STEP]
    ids = pa.array([f"e{number}" for number in range(log.episodes)])
    whole = {
        "id": ids,
        "task_id": pa.array([f"t{code}" for code in log.tasks]),
        "steps": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(STEP))),
        "terminated": pa.array(log.terminated),
        "length": pa.array(log.lengths.astype(np.int32)),
        "return": pa.array(log.returns(1.0)),
        "meta": pa.array([[]] * log.episodes, SCHEMA.field("meta").type),
    }
    fixed = {"schema_version": SCHEMA_VERSION, "env": "synthetic", "policy": "logger", "epsilon": 0.0, "seed": 0}
    fixed |= {"family": "f", "split": "train", "goal": "g", "final_observation": "", "env_version": "1"}
    fixed |= {"truncated": False}
    table = pa.Table.from_arrays([_column(field, log.episodes, whole, fixed) for field in SCHEMA], schema=SCHEMA)
    with files.writing(folder / "log" / "shard.parquet") as file:
        pq.write_table(table, file, row_group_size=ROW_GROUP)
    candidates = []
    for number in range(CANDIDATES):
        scatter = 0.05 * (number + 1)
        changed = scatter * rng.choice([-1.0, 1.0], size=log.steps) * (log.behaviour < -np.log1p(scatter))
        scores = log.behaviour + np.log1p(changed)  # step weights average 1: no estimate is flagged, all are compared
        path = folder / f"candidate{number}.parquet"
        with files.writing(path) as file:
            pq.write_table(pa.table({"id": ids, "logprobs": pa.ListArray.from_arrays(offsets, pa.array(scores))}), file)
        candidates.append(f"candidate{number}=logprobs:{path}")
    return candidates


def _column(field: pa.Field, count: int, given: dict[str, Any], fixed: dict[str, Any]) -> pa.Array:
    if field.name in given:
        return given[field.name].cast(field.type)
    return pa.repeat(pa.scalar(fixed.get(field.name), field.type), count)
