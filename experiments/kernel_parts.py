"""What is each part of the world model `wm` worth? Every part switched off in turn, in each world of `bench worlds`.

python experiments/kernel_parts.py --out runs/parts --jobs 8 --minutes 60 --result kernel_parts.json

A unit is one world, one part that is off (`full`: none) and one seed of the fit, in a process of its own on one thread.
Logs and truth are made once; a unit that is done is kept in --out, so a run may be stopped and begun again. First comes
`full` of all worlds, then part by part, the larger ones first; a part of which `full` shows no sign in a world is not
fitted there. Rows hold held-out figures of the fit and, of `full` and of the larger parts, the values of the targets
(one imagined episode a task; of fewer tasks where episodes are long), their Spearman and mean absolute error as a share
of the range of returns; and by how much all these differ from `full`.
"""

import argparse
import json
import multiprocessing
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from kernel_switches import PARTS, Part, signs_of, switched_off

from worldline import files, store
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.value import imagine
from worldline.bench import worlds
from worldline.bench.world_cases import SMALL_CASES
from worldline.bench.worlds import WorldsBenchConfig
from worldline.kernel import fitting
from worldline.ope.agreement import spearman
from worldline.types import InputError, Trajectory

FULL = "full"
WORLDS = (*SMALL_CASES, "household")
LOADED = ("worldline.bench.worlds", "worldline.adwm.value", "scipy.optimize", "torch._dynamo")
"""What takes seconds to import: once for all processes."""
MEASURES = ("mae", "spearman", "text nats", "nats", "exact", "possible", "outcome nats", "outcome error", "exact lists")
LARGER = 16
"""So many of the parts, in their order, are judged by values too."""
FEWEST = 30
"""Tasks that each target plays at least."""
_FLOOR = 1e-3
"""Probability that a text is granted which is not among the candidates."""


@dataclass(frozen=True)
class Unit:
    """One process: what is off in which world, and the seed of the fit."""

    world: str
    part: str
    seed: int
    out: Path
    stage: WorldsBenchConfig
    steps: int
    imagined: int
    """Imagined steps, about; 0: none, the fit alone is measured."""
    until: float
    """The time at which no more is begun; a unit that is likely to end later is not begun either."""
    likely_seconds: float = 0.0

    @property
    def path(self) -> Path:
        return (
            self.out
            / f"units-{self.steps}"
            / f"{re.sub(r'[^a-z]+', '-', f'{self.world}--{self.part}')}-{self.seed}.json"
        )

    def kept(self) -> dict[str, Any] | None:
        """What it measured, if it is done."""
        kept = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else None
        return dict(kept) if kept and (kept["values"] or not self.imagined) else None


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    config = {"seeds": 1, "members": 0, "jobs": 1, "seed": options.seed, "out": options.out / "stage"}
    stage = WorldsBenchConfig(worlds=tuple(options.worlds), tasks=options.tasks, **config)
    until = time.time() + 60 * options.minutes

    def unit(world: str, part: str, seed: int, likely_seconds: float = 0.0) -> Unit:
        imagined = options.imagined if part == FULL or list(PARTS).index(part) < options.valued else 0
        return Unit(world, part, seed, options.out, stage, options.steps, imagined, until, likely_seconds)

    with context.Pool(options.jobs, maxtasksperchild=1) as pool:

        def work(do: Callable[[Any], str], all_of: Sequence[Any]) -> None:
            for done, line in enumerate(pool.imap_unordered(do, all_of, chunksize=1), start=1):
                print(f"{done}/{len(all_of)} {line}", file=sys.stderr, flush=True)

        work(make_stage, [unit(world, FULL, 0) for world in options.worlds])
        whole = [unit(world, FULL, seed) for seed in range(options.full_seeds) for world in options.worlds]
        work(run, [one for one in whole if one.kept() is None])
        full = {one.world: one.kept() for one in whole if one.seed == 0}
        parts = [
            unit(world, part, seed, of_full["seconds"])
            for seed in range(options.part_seeds)
            for part in options.parts
            for world, of_full in full.items()
            if of_full and shows(PARTS[part], of_full)
        ]
        work(run, [one for one in parts if one.kept() is None])
    measured = [*rows(whole, parts)]
    of_parts = worth(measured)
    if options.result:
        command = shlex.join(["python", *sys.argv])
        files.write_json(options.result, {"command": command, "worth": of_parts, "rows": measured})
    print_worth(of_parts, [one for one in (*whole, *parts) if one.kept() is None])
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of logs and units; what is there is used again")
    parser.add_argument("--result", type=Path, help="the JSON to write, of all units that are done")
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS, metavar="WORLD")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), help="which are switched off", metavar="PART")
    parser.add_argument("--full-seeds", type=int, default=3, help="seeds of the fit with nothing off")
    parser.add_argument("--part-seeds", type=int, default=1, help="the same with a part off")
    parser.add_argument("--steps", type=int, default=fitting.STEPS, help="logged steps that are described for a fit")
    parser.add_argument("--imagined", type=int, default=3000, help="imagined steps of a unit, about")
    parser.add_argument("--valued", type=int, default=LARGER, help="parts that are judged by values, the larger first")
    parser.add_argument("--tasks", type=int, help="tasks that each logger plays; default: as in bench worlds")
    parser.add_argument("--seed", type=int, default=111, help="of logs and truth")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes beside each other")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no more units after so long; 0: logs alone")
    options = parser.parse_args(words)
    for part in options.parts:
        if part not in PARTS:
            raise InputError(f"--parts: there is no '{part}': give some of {', '.join(PARTS)}")
    return options


def make_stage(unit: Unit) -> str:
    """Log and truth of a world, unless they are there."""
    torch.set_num_threads(1)
    experiment = worlds.experiment_of(unit.world, unit.stage)
    experiment.claim()
    if not (experiment.out / "truth.json").is_file():
        worlds._truth(unit.world, experiment)
    if len(list(experiment.out.glob("log/*/*"))) < len(experiment.suite.loggers):
        experiment.log()
    return f"log and truth of {unit.world}"


def run(unit: Unit) -> str:
    """Measure a unit and keep what was measured; one line about it."""
    name = f"{unit.world}, {unit.part} (seed {unit.seed})"
    if time.time() + unit.likely_seconds > unit.until:
        return f"{name}: not begun"
    torch.set_num_threads(1)
    part = PARTS.get(unit.part, Part(()))
    with switched_off(part):
        measured = measure(unit)
    left = [sign for sign in part.signs if measured["signs"][sign]]
    files.write_json(unit.path, {"world": unit.world, "part": unit.part, "seed": unit.seed, **measured, "left": left})
    nats, error = measured["figures"]["text nats"], measured.get("mae", float("nan"))
    return f"{name}: {nats:.3f} nats, error {error:.4f}, {measured['seconds']:.0f} s"


def measure(unit: Unit) -> dict[str, Any]:
    """Fit on the log of the world, and let every target play in it."""
    begun = time.process_time()
    experiment = worlds.experiment_of(unit.world, unit.stage)
    truth, log = experiment.truth(), log_of(experiment.out)
    with switched_off(Part(((fitting, "_measured", _with_nats),))):
        model, figures = fitting.fit_once(log, unit.seed, unit.steps)
    fitted = time.process_time()
    starts, values, steps = starts_of(log, unit.imagined, len(truth)), dict[str, float](), 0
    for name, source in experiment.sources(list(truth)).items() if starts else ():
        policy = source.load(experiment.world)
        world = KernelWorld(model, facts_of(model.log.episodes), starts=starts)
        played = imagine(world, policy, rollouts=1, seed=unit.seed)
        values[name] = float(np.mean([episode.episode_return for episode in played.trajectories]))
        steps += sum(map(len, played.trajectories))
    judged: dict[str, Any] = {}
    if values:
        imagined, true = np.array([values[name] for name in truth]), np.array(list(truth.values()))
        error = float(np.abs(imagined - true).mean() / worlds._width(experiment.world))
        judged = {"mae": error, "spearman": spearman(imagined, true)}
    return judged | {
        "figures": figures,
        "values": values,
        "truth": truth,
        "signs": signs_of(model),
        "imagined steps": steps,
        "seconds of the fit": fitted - begun,
        "seconds": time.process_time() - begun,
    }


def starts_of(log: Sequence[Trajectory], imagined: int, targets: int) -> list[Trajectory]:
    """The logged episodes of so many tasks that the targets take about as many steps as are to be imagined."""
    tasks = list(dict.fromkeys(episode.task_id for episode in log))
    most = max(FEWEST, int(imagined / (targets * fmean(map(len, log))))) if imagined else 0
    played = frozenset(tasks[:most])
    return [episode for episode in log if episode.task_id in played]


def log_of(folder: Path) -> list[Trajectory]:
    return sorted(store.read(sorted((folder / "log").iterdir())), key=lambda episode: episode.id)


def _with_nats(original: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """Also the nats of what was really said, by all that weighs candidates, whatever the gate was credited for."""

    def measured(sample: Any, weighed: Any, held_out: Any) -> dict[str, float]:
        tested = [(one, chances) for one, chances in zip(sample, weighed, strict=True) if one.row.episode in held_out]
        right = np.array([chances[one.right].sum() for one, chances in tested])
        nats = -np.log((1 - _FLOOR) * right + _FLOOR)
        weights = [one.weight for one, _ in tested]
        return original(sample, weighed, held_out) | {"text nats": float(np.average(nats, weights=weights))}

    return measured


def shows(part: Part, full: dict[str, Any]) -> bool:
    """Whether there is anything to switch off."""
    return not part.signs or any(full["signs"][sign] for sign in part.signs)


def rows(whole: Sequence[Unit], parts: Sequence[Unit]) -> Iterator[dict[str, Any]]:
    """Of each unit that is done, less its signs; of one with a part off also how it differs from `full` of its seed."""
    full = {(one.world, one.seed): one.kept() for one in whole}
    yield from (_less_signs(row) for row in full.values() if row)
    for row, of_full in ((one.kept(), full.get((one.world, one.seed))) for one in parts):
        if row and of_full:
            differ = {
                name: _figure(row, name) - _figure(of_full, name) for name in MEASURES if _has(row, of_full, name)
            }
            same = row["figures"] == of_full["figures"] and row["values"] in ({}, of_full["values"])
            yield _less_signs(row) | {"differ": differ, "no effect": same}


def _less_signs(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "signs"}


def _figure(row: dict[str, Any], name: str) -> float:
    return float(row[name] if name in row else row["figures"][name])


def _has(row: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    return all(one.get(name, one["figures"].get(name)) is not None for one in (row, other))


def worth(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each part, the mean over worlds of what changes without it, and where; beside the spread of `full`."""
    of_full = [row for row in measured if row["part"] == FULL]
    out: dict[str, Any] = {FULL: {"mae": fmean(row["mae"] for row in of_full)}} if of_full else {}
    spreads = [
        stdev(errors)
        for world in dict.fromkeys(row["world"] for row in of_full)
        if len(errors := [row["mae"] for row in of_full if row["world"] == world]) > 1
    ]
    if spreads:
        out[FULL]["standard deviation of mae between seeds"] = fmean(spreads)
    for part in PARTS:
        own = [row for row in measured if row["part"] == part and not row["no effect"]]
        by_world = {name: {r["world"]: r["differ"][name] for r in own if name in r["differ"]} for name in MEASURES}
        means = {name: fmean(of.values()) for name, of in by_world.items() if of}
        if own:
            left = [row["world"] for row in own if row["left"]]
            out[part] = {"worlds": len(own), "not wholly off in": left, "mean": means, "by world": by_world}
    return out


def print_worth(of_parts: dict[str, Any], missing: Sequence[Unit]) -> None:
    shown = ("mae", "text nats", "exact", "outcome nats", "outcome error", "exact lists")
    print(f"full: {of_parts.get(FULL)}\nwithout a part, in so many worlds: {', '.join(shown)}")
    for part, one in of_parts.items():
        if part != FULL:
            means = " ".join(f"{one['mean'][name]:+8.4f}" if name in one["mean"] else 8 * " " for name in shown)
            print(f"{part:36} {one['worlds']:2} {means}")
    if missing:
        print(f"{len(missing)} units are not done: begin again")


if __name__ == "__main__":
    sys.exit(main())
