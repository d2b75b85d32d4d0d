"""Can an agent be trained from logs alone? `train imagined:FOLDER` against more cloning and against reality.

python experiments/imagined_train.py clone   RUNS WORLD         # the start, and its real success
python experiments/imagined_train.py log     RUNS WORLD SEED    # a log of the start, and its world model
python experiments/imagined_train.py arm     RUNS WORLD SEED [ARM ...]   # of ARMS; default: all, one after the other
python experiments/imagined_train.py figures RUNS RESULT.json   # of all that RUNS holds

Worlds and seeds are independent, and so are the arms of a log: start as many beside each other as there are cores.
What is done is not done again; a verb that was stopped begins anew.

**Fixed before the first judged run.** The log: 600 episodes of the start, at temperature 1, of 150 training tasks. The
arms, each from the same start: training in the world model of that log, with and without its halt; the same updates in
the real world; more cloning of the log's successes, at two learning rates (the better one is its figure: the rival is
chosen by the judge). Judged by real success on 256 episodes of tasks that nobody trained on, at temperature 0.4.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worldline import files

CLONES = {
    "household": "sft household --target both",
    "keydoor": "sft keydoor --target both --episodes 1000",
}
JUDGED_ON = {"household": "unseen", "keydoor": "test"}
LOG = ("--episodes", "600", "--tasks", "0:150", "--temperature", "1")
TRAIN = ("--algo", "gigpo", "--wm", "paw", "--groups", "8", "--updates", "20", "--evaluation.every", "0")
CLONING = ("--target", "both", "--epochs", "3", "--learning-rate")
ARMS = ("imagined", "not-halted", "real", "cloning-1e-4", "cloning-1e-3")
STOPS = ("left what the log supports", "exploded")
"""What `train` says where it stops by itself; any other error is no result of an arm."""
JUDGE = ("--episodes", "256", "--temperature", "0.4", "--seed", "17")


def clone(runs: Path, world: str) -> None:
    """The start of every arm."""
    folder = runs / world
    start = folder / "clone"
    _made(start, CLONES[world].split())
    _judged(folder / "start.json", world, start / "model")


def log(runs: Path, world: str, seed: int) -> None:
    """A log of the start, and a world model of it."""
    folder, start = runs / world / f"seed-{seed}", runs / world / "clone" / "model"
    drawn = ("--seed", str(seed))
    _made(folder / "log", ["collect", world, "--policy", f"hf:{start}", *LOG, *drawn])
    _made(folder / "wm", ["fit", str(folder / "log"), "--members", "0", *drawn])


def run_arm(runs: Path, world: str, seed: int, name: str) -> None:
    """One arm from the start, and its real success."""
    folder, start = runs / world / f"seed-{seed}", runs / world / "clone" / "model"
    given = ["--model", str(start), "--seed", str(seed)]
    imagined = f"imagined:{folder / 'wm'}"
    words = {
        "imagined": ["train", imagined, *TRAIN, *given],
        "not-halted": ["train", imagined, "--options.halt", "false", *TRAIN, *given],
        "real": ["train", world, *TRAIN, *given],
    }.get(name) or ["sft", str(folder / "log"), *CLONING, name.removeprefix("cloning-"), *given]
    out = folder / name
    made = _made(out, words)
    checkpoints = sorted((out / "checkpoints").glob("*"))
    trained = out / "model" if words[0] == "sft" else checkpoints[-1] if checkpoints else start
    _judged(folder / f"{name}.json", world, trained, {"arm": name, "seed": seed, **made, **_curve(out)})


def figures(runs: Path, result: Path) -> None:
    """One row a world and arm: the mean rise of real success over the seeds, and its standard error."""
    worlds: dict[str, Any] = {}
    for start in sorted(runs.glob("*/start.json")):
        before = json.loads(start.read_text(encoding="utf-8"))["success"]
        rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(start.parent.glob("seed-*/*.json"))]
        rows = [row for row in rows if "arm" in row]
        arms = {arm: _rise([row["success"] - before for row in rows if row["arm"] == arm]) for arm in _arms(rows)}
        cloned = [name for name in arms if name.startswith("cloning")]
        best = max(cloned, key=lambda name: arms[name]["mean"], default=None)
        worlds[start.parent.name] = {"start": before, "rise": arms, "best cloning": best, "rows": rows}
    commands = [f"worldline {words}" for words in CLONES.values()]
    files.write_json(result, {"command": "experiments/imagined_train.py", "clones": commands, "worlds": worlds})


def _arms(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["arm"] for row in rows))


def _rise(rises: Sequence[float]) -> dict[str, Any]:
    error = float(np.std(rises, ddof=1) / np.sqrt(len(rises))) if len(rises) > 1 else None
    return {"mean": float(np.mean(rises)), "standard_error": error, "of_each": list(rises)}


def _made(folder: Path, words: list[str]) -> dict[str, Any]:
    """Run a verb into `folder` unless it is done; its seconds, and the last line of training that stopped itself."""
    path = folder.with_name(f"{folder.name}.done")
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        started = time.perf_counter()
        command = [sys.executable, "-m", "worldline", *words, "--out", str(folder)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        lines = done.stderr.strip().splitlines()
        if done.returncode and not any(line in "".join(lines[-1:]) for line in STOPS):
            raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
        stopped = {"stopped": lines[-1]} if done.returncode else {}
        files.write_json(path, {"seconds": round(time.perf_counter() - started, 1), **stopped})
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _judged(path: Path, world: str, model: Path, row: dict[str, Any] | None = None) -> None:
    """Real success of `model`, into `path` unless it is there."""
    if path.exists():
        return
    words = ["collect", world, "--policy", f"hf:{model}", "--split", JUDGED_ON[world], *JUDGE, "--json"]
    command = [sys.executable, "-m", "worldline", *words]
    played = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    files.write_json(path, {**(row or {}), "success": played["success"], "return": played.get("return")})


def _curve(folder: Path) -> dict[str, Any]:
    """What training saw: success of its own episodes, and the share of them that was halted."""
    metrics = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()] if metrics.exists() else []
    names = ("success", "halted", "eval_success", "kl")
    return {"curves": {name: [round(line[name], 4) for line in lines if name in line] for name in names}}


if __name__ == "__main__":
    stage, folder, *words = sys.argv[1:]
    if stage == "clone":
        clone(Path(folder), words[0])
    elif stage == "log":
        log(Path(folder), words[0], int(words[1]))
    elif stage == "arm":
        for name in words[2:] or ARMS:
            run_arm(Path(folder), words[0], int(words[1]), name)
    else:
        figures(Path(folder), Path(words[0]))
