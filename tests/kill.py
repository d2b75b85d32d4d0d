"""kill -9 at random moments of a verb, resume, compare: `python tests/kill.py [VERB ...] [--moments 10] [--seed 0]`.

`make kill` runs all. Moments are uniform over the time that the undisturbed run took after its first file: before that
there is nothing to lose. To add a verb, add it to `VERBS`.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

import worldline
from adwm.tiny_house import play, tiny_house
from faults import snapshot
from paw.counting_recipe import RECIPE
from paw.start_policy import save_start
from training_states import values
from worldline import files, store
from worldline.cli import main

Words = Sequence[str | Path]


@dataclass(frozen=True)
class Verb:
    """A command that is killed and resumed."""

    prepare: Callable[[Path], Words]
    """Makes what the command reads in a folder; the command line without `--out`."""
    result: Callable[[Path], Any]
    """What must be equal in the output folder of an undisturbed and a resumed run."""
    resume: str = "--resume"


def _sft(folder: Path) -> Words:
    flags = "--episodes 100 --epochs 80 --batch-tokens 256 --context 128 --checkpoints 50"
    return ["counting:CountingWorld", "--model", save_start(folder / "start"), *flags.split()]


def _train(folder: Path) -> Words:
    recipe = folder / "recipe.yaml"  # JSON is YAML
    recipe.write_text(json.dumps(RECIPE | {"updates": 24, "model": str(save_start(folder / "start"))}))
    return [recipe]


def _evaluate(folder: Path) -> Words:
    log = folder / "log"
    assert (
        main(["collect", "counting:CountingWorld", "--policy", "random", "--episodes", "400", "--out", str(log)]) == 0
    )
    flags = "--epsilon 0 0.5 --estimators naive wis lfqe dr"
    return ["--log", log, "--policy", f"mine=hf:{save_start(folder / 'start')}", "random", *flags.split()]


def _checkpoints_and_metrics(out: Path) -> dict[str, Any]:
    """All that is in the folder, as far as it is the same in every run."""
    result: dict[str, Any] = {}
    for name, content in snapshot(out).items():
        if name.endswith("training_state.pt"):
            result[name] = values(out / name)
        elif name == "metrics.jsonl":
            rows = [json.loads(line) for line in files.read_lines(out / name).whole]
            result[name] = [{k: v for k, v in row.items() if not k.startswith(("seconds", "peak"))} for row in rows]
        elif name != "config.json" and not name.endswith(".parquet"):
            result[name] = content
    return result


def _run_with_log(out: Path) -> dict[str, Any]:
    store.check_unique(out)
    return _checkpoints_and_metrics(out) | {episode.id: episode for episode in store.read(out)}


def _fit(folder: Path) -> Words:
    with store.StoreWriter(folder / "log") as writer:
        for episode in play(tiny_house(), 0.4, 24):
            writer.append(episode)
    return [folder / "log", *"--members 2 --epochs 6 --text-steps 200 --replayed-episodes 8".split()]


def _world_model(out: Path) -> dict[str, Any]:
    """The same, with weights bit by bit: safetensors may write equal ones in another order."""
    return _run_with_log(out) | {
        str(path.relative_to(out)): {name: weight.numpy().tobytes() for name, weight in load_file(path).items()}
        for path in out.rglob("*.safetensors")
    }


def _import(folder: Path) -> Words:
    with store.StoreWriter(folder / "log") as writer:
        for episode in play(tiny_house(), 1.0, 3000):
            writer.append(episode)
    assert main(["export", str(folder / "log"), "--out", str(folder / "log.jsonl")]) == 0
    return ["jsonl", folder / "log.jsonl"]


def _episodes(out: Path) -> dict[str, Any]:
    store.check_unique(out)
    return {episode.id: episode for episode in store.read(out)}


VERBS = {
    "import": Verb(_import, _episodes),
    "fit": Verb(_fit, _world_model),
    "sft": Verb(_sft, _checkpoints_and_metrics),
    "train": Verb(_train, _run_with_log),
    "evaluate": Verb(_evaluate, snapshot, resume="--overwrite"),
}


def kill(name: str, moments: int, seed: int) -> bool:
    """Whether the verb, killed at each of the moments and resumed, came to the undisturbed result."""
    verb, rng = VERBS[name], random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        words = verb.prepare(folder)
        process = _start(name, words, folder / "whole")
        started = time.monotonic()
        _finish(process)
        duration = time.monotonic() - started
        whole = verb.result(folder / "whole")
        equal = 0
        for number, moment in enumerate(sorted(rng.uniform(0, duration) for _ in range(moments))):
            out = folder / str(number)
            while not _killed(_start(name, words, out), moment):  # it was faster this time
                shutil.rmtree(out)
                moment /= 2
            left = len(list(out.rglob("*")))
            _finish(_start(name, [*words, verb.resume], out))
            same = verb.result(out) == whole
            equal += same
            outcome = "equal" if same else "DIFFERENT"
            print(f"{name}: killed after {moment:.2f} of {duration:.2f} s with {left} files: {outcome}", flush=True)
    print(f"{name}: {equal} of {moments} equal", flush=True)
    return equal == moments


def _start(name: str, words: Words, out: Path) -> subprocess.Popen[str]:
    """The command, which has just begun to write."""
    here = (str(Path(__file__).parent), str(Path(worldline.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
    process = subprocess.Popen(
        [sys.executable, "-m", "worldline", name, *map(str, words), "--out", str(out)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(here), "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not out.exists():
        time.sleep(0.005)
    return process


def _killed(process: subprocess.Popen[str], moment: float) -> bool:
    """Whether the command was still at work at that moment, when it was killed."""
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def _finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="kill -9 at random moments, resume, compare")
    parser.add_argument("verbs", nargs="*", help=f"of {', '.join(VERBS)}; default: all")
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    equal = [kill(name, given.moments, given.seed) for name in given.verbs or VERBS]
    sys.exit(not all(equal))
