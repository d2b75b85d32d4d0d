"""Does `train` learn on a CPU within minutes? A clone, then a training run with several seeds, one after the other.

python experiments/cpu_train.py RUNS RESULT.json SEED ... makes what RUNS does not hold yet, then writes the curves,
with wall-clock and CPU seconds of each run, for `experiments/curves.py`. A run that was stopped begins anew.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from worldline import files

CLONE = "sft household --target both"
TRAIN = "train household --algo gigpo --wm paw --groups 8 --updates 20"


def main(runs: Path, result: Path, seeds: list[int]) -> None:
    """The clone is made once, with its default seed."""
    clone = _made(runs / "clone", CLONE.split())
    rows = []
    for seed in seeds:
        folder = runs / f"paw-{seed}"
        spent = _made(folder, [*TRAIN.split(), "--model", str(runs / "clone" / "model"), "--seed", str(seed)])
        rows.append(_row(folder, seed) | spent)
        rises = [row["curve"][-1][1] - row["curve"][0][1] for row in rows]
        figures = {"rise": sum(rises) / len(rises), "smallest rise": min(rises)}
        figures |= {f"clone {name}": value for name, value in clone.items()}
        commands = [f"worldline {CLONE} --out runs/clone", f"worldline {TRAIN} --model runs/clone/model --out runs/paw"]
        files.write_json(result, {"command": commands, "cores": os.cpu_count(), "figures": figures, "rows": rows})


def _made(folder: Path, words: list[str]) -> dict[str, float]:
    """Run a verb into `folder` unless it is done; the seconds it took."""
    path = folder.with_suffix(".seconds.json")
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-m", "worldline", *words, "--out", str(folder)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        files.write_json(path, {"seconds": time.perf_counter() - started, "cpu_seconds": cpu})
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _row(folder: Path, seed: int) -> dict[str, Any]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    named = {"curve": "eval_success", "observation_ce": "eval_observation_ce", "training": "success", "kl": "kl"}
    named |= {"cosine": "grad_cosine", "invalid": "invalid"}
    curves = {key: [[line["update"], line[name]] for line in lines if name in line] for key, name in named.items()}
    return {"variant": "gigpo+paw", "seed": seed} | curves


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
