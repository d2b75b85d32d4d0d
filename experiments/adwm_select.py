"""Can a world model pick a checkpoint from the training rollouts alone? A training run, ten checkpoints, no new play.

python experiments/adwm_select.py RUNS RESULT.json --clone CLONE/model --seeds 0 1 2 --jobs 16 [--scale tiny]

The run is that of the README (`experiments/cpu_train.py` makes its clone). `wm` is fitted on the run's own episodes and
values every checkpoint in imagination; then each is played in truth, on new tasks in the training layouts, the same for
all. Beside the pick of `wm` stand the last checkpoint, the one of the best training reward, and the best in truth.
What is done is not done again: RUNS holds a NAME.seconds.json for every command that ended well.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import run_queue
from cpu_train import TRAIN

from worldline import files, store
from worldline.ope.agreement import pairwise_accuracy, spearman

WORLDLINE: tuple[str, ...] = (sys.executable, "-m", "worldline")


@dataclass(frozen=True)
class Scale:
    """How much is trained, played and imagined."""

    training: str = TRAIN
    updates: int = 20
    every: int = 2
    """Updates between checkpoints."""
    episodes: int = 512
    """Of each checkpoint in truth."""
    rollouts: int = 2
    """Of each task of the log, in imagination."""

    @property
    def checkpoints(self) -> range:
        """The updates that are followed by one."""
        return range(self.every, self.updates + 1, self.every)


TINY = "train household --algo gigpo --wm paw --groups 2 --group-size 4 --updates 2 --max-steps 8"
SCALES = {"full": Scale(), "tiny": Scale(TINY, updates=2, every=1, episodes=4, rollouts=1)}
TEMPERATURE = "--temperature 0.4"
"""At which the checkpoints are judged, as in the README's evaluations."""
Curve = Mapping[int, float]
"""A figure for every checkpoint, by its update."""


def tasks(runs: Path, clone: str, seeds: Sequence[int], scale: Scale) -> list[run_queue.Task]:
    """Every command, with those that must be done before it."""
    made: list[run_queue.Task] = []

    def task(name: str, words: Sequence[str], *needs: str) -> None:
        done = partial(_ended, runs / f"{name}.seconds.json")
        made.append(run_queue.Task(name, (*WORLDLINE, *words), runs / f"{name}.log", done, needs=needs))

    for seed in seeds:
        run, world_model = runs / f"paw-{seed}", runs / f"wm-{seed}"
        training = [*scale.training.split(), "--model", clone, "--out", str(run)]
        training += f"--seed {seed} --checkpoint-every {scale.every} --keep-checkpoints 0".split()
        task(f"train-{seed}", [*training, "--evaluation.every", "0", "--overwrite"])
        fitting = ["fit", str(run), "--members", "0", "--out", str(world_model), "--overwrite"]
        task(f"fit-{seed}", fitting, f"train-{seed}")
        for update in scale.checkpoints:
            policy = f"hf:{run}/checkpoints/update-{update:06d}"
            playing = ["collect", "household", "--policy", policy, "--out", str(runs / f"truth-{seed}" / str(update))]
            playing += f"--split seen --seed 9 --episodes {scale.episodes} --overwrite {TEMPERATURE}".split()
            task(f"truth-{seed}-{update}", playing, f"train-{seed}")
            judging = [
                "evaluate",
                "--log",
                str(run),
                "--world-model",
                str(world_model),
                "--policy",
                f"{update}={policy}",
            ]
            judging += f"--estimators wm --no-certificate --interface text --rollouts {scale.rollouts}".split()
            judging += [*TEMPERATURE.split(), "--out", str(runs / f"choice-{seed}-{update}"), "--overwrite"]
            task(f"imagine-{seed}-{update}", judging, f"fit-{seed}")
    return made


def _ended(path: Path, code: int, seconds: float) -> bool:
    if code == 0:
        files.write_json(path, {"seconds": seconds})
    return code == 0


def row(runs: Path, seed: int, scale: Scale) -> dict[str, Any] | None:
    """One run: its checkpoints and who picks which; None where some of it is missing."""
    names = [f"{kind}-{seed}-{update}" for update in scale.checkpoints for kind in ("truth", "imagine")]
    if not all((runs / f"{name}.seconds.json").exists() for name in names):
        return None
    truth, errors, imagined = dict[int, float](), dict[int, float](), dict[int, float]()
    for update in scale.checkpoints:
        returns = np.array([episode.episode_return for episode in store.read(runs / f"truth-{seed}" / str(update))])
        truth[update], errors[update] = float(returns.mean()), float(returns.std() / np.sqrt(len(returns)))
        evaluation = _json(runs / f"choice-{seed}-{update}" / "evaluation.json")
        imagined[update] = evaluation["policies"][0]["estimates"]["wm"]["value"]
    lines = [json.loads(line) for line in (runs / f"paw-{seed}" / "metrics.jsonl").read_text().splitlines()]
    rewards = {line["update"]: line["success"] for line in lines if "success" in line}
    trained = {
        u: float(np.mean([rewards[at] for at in range(u - scale.every + 1, u + 1) if at in rewards])) for u in truth
    }
    seconds = {kind: [_json(path)["seconds"] for path in sorted(runs.glob(f"{kind}-{seed}*.seconds.json"))]
               for kind in ("train", "fit", "imagine", "truth")}  # fmt: skip
    return {"seed": seed, "truth": truth, "error": errors, "imagined": imagined, "training_success": trained,
            "picks": picks(truth, imagined, trained), "seconds": {kind: sum(each) for kind, each in seconds.items()},
            "pairwise": pairwise_accuracy(_values(imagined), _values(truth)),
            "spearman": spearman(_values(imagined), _values(truth))}  # fmt: skip


def picks(truth: Curve, imagined: Curve, trained: Curve) -> dict[str, dict[str, float]]:
    """The checkpoint that each rule picks, its true value, and what is lost against the best."""
    chosen = {
        "wm": max(imagined, key=lambda update: imagined[update]),
        "last": max(truth),
        "best training reward": max(trained, key=lambda update: trained[update]),
        "oracle": max(truth, key=lambda update: truth[update]),
    }
    best = truth[chosen["oracle"]]
    return {name: {"update": u, "value": truth[u], "regret": best - truth[u]} for name, u in chosen.items()}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, help="folder of runs")
    parser.add_argument("result", type=Path, help="the JSON to write")
    parser.add_argument("--clone", required=True, help="folder of the model that the runs start from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="commands beside each other")
    parser.add_argument("--minutes", type=float, help="stop after so many; default: when all is done")
    parser.add_argument("--scale", choices=tuple(SCALES), default="full", help="tiny: a rehearsal")
    given = parser.parse_args(words)
    scale = SCALES[given.scale]
    every = tasks(given.runs, given.clone, given.seeds, scale)
    missing = [task for task in every if not (given.runs / f"{task.name}.seconds.json").exists()]
    seconds = None if given.minutes is None else 60 * given.minutes
    ended = run_queue.play(missing, given.jobs, seconds, late=True)
    rows = [one for seed in given.seeds if (one := row(given.runs, seed, scale)) is not None]
    command = "python experiments/adwm_select.py RUNS RESULT.json --clone CLONE/model --seeds 0 1 2"
    files.write_json(given.result, {"command": command, "rows": rows, "regret": regrets(rows)})
    print(json.dumps(regrets(rows)))
    return 0 if len(ended.done) == len(missing) else 3


def regrets(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean regret of each rule."""
    names = rows[0]["picks"] if rows else ()
    return {name: float(np.mean([one["picks"][name]["regret"] for one in rows])) for name in names}


def _values(curve: Curve) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([curve[update] for update in sorted(curve)])


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
