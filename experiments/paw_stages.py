"""The stages of `paw_alfworld.py`: the starts, the learning rate, the runs, the figures.

Each looks at the results that are there and makes what is missing. Verbs of worldline do the work, each in a process
of its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import run_queue
from paired_differences import measures
from paw_rows import kept
from paw_starts import demonstrate, searched

from worldline import envs, files
from worldline.types import InputError, WorldlineError

WORLDLINE: tuple[str, ...] = (sys.executable, "-m", "worldline")
Flags = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """All settings of an environment's experiment."""

    walkthroughs: bool
    """Whether the games come with their solutions; else the expert's wins are cloned."""
    chosen_on: str
    """The split on which start and rate are chosen."""
    judged_on: str
    steps: int
    tokens: int
    """Longest response."""
    context: int
    """Longest prompt, and longest sequence of a clone."""
    clone: Flags
    train: Flags
    arms: Mapping[str, Flags]
    phases: tuple[tuple[str, ...], ...]
    """Arms in the order in which they are run."""
    rates: tuple[float, ...]
    """Those that are tried."""
    tuning: Flags
    """What of `train` is different where a rate is chosen."""
    close: float
    """Successes this close are equal when a rate is chosen."""
    tune_seeds: Mapping[str, int]
    """By start."""
    window: tuple[float, float]
    """The success that a start may have."""
    first: int
    """Walkthroughs of the first clone."""
    episodes: int
    """Of the evaluation of a clone."""
    longest: int | None = None
    """Steps of the longest game that is demonstrated; None: any."""
    dtype: str = "bfloat16"
    options: Flags = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """What the command line says beside the plan; none of it changes a result, but `model` and `data`."""

    env: str
    out: Path
    data: Path | None = None
    model: str = ""
    starts: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    seeds: int = 0
    jobs: int = 1
    minutes: float | None = None
    result: Path = Path("result.json")
    batch_size: int = 128
    cache_gib: float = 4.0
    batch_tokens: int = 8192
    rollout_tokens: int = 262144


@dataclass(frozen=True)
class Run:
    """One training run."""

    stage: str
    start: str
    arm: str
    seed: int
    rate: float

    @property
    def name(self) -> str:
        rate = f"-{self.rate:g}" if self.stage == "tune" else ""
        return f"{self.stage}-{self.start}-{self.arm.replace('+', '-').replace(' ', '-')}{rate}-{self.seed}"


class Stages:
    """What every stage needs: the plan, what was given on the command line, and the two folders."""

    def __init__(self, plan: Plan, given: Given) -> None:
        self.plan, self.given, self._began = plan, given, time.monotonic()
        self.results, self.work = (given.out / given.env / name for name in ("results", "work"))

    def clone(self) -> bool:
        """The two starts, and each clone that was tried on the way to them."""
        for start in self.given.starts:
            number = searched(partial(self._success, start), self.plan.first, self.plan.window)
            self._model(start, number)
            print(f"start '{start}': {number} walkthroughs", file=sys.stderr)
        return True

    def tune(self) -> bool:
        """Plain GRPO at each rate; the rule's choice."""
        if not self._played([self._tuning(start, rate) for start in self.given.starts for rate in self.plan.rates]):
            return False
        for start in self.given.starts:
            print(f"start '{start}': learning rate {self.rate(start):g}", file=sys.stderr)
        return True

    def run(self) -> bool:
        """The arms, phase by phase and seed by seed, so that whatever is done can be compared."""
        rates = {start: self.rate(start) for start in self.given.starts}
        runs = [
            Run("run", start, arm, seed, rates[start])
            for phase in self.plan.phases
            for seed in range(self.given.seeds)
            for start in self.given.starts
            for arm in phase
            if arm in self.given.arms
        ]
        return self._played(runs)

    def figures(self) -> bool:
        """The table, one JSON of everything, the curves."""
        from paw_figures import figures  # which needs matplotlib: a machine that trains may have none

        rows = [_json(path) for path in sorted(self.results.glob("run-*.json"))]
        if not rows:
            raise InputError(f"{self.results}: no finished run: `run` makes them")
        for row in rows:
            self._finished(Run("run", row["start"], row["variant"], row["seed"], row["rate"]))  # with these settings
        starts = sorted({row["start"] for row in rows})
        chosen = {"clones": {start: self.clones(start) for start in starts}}
        chosen |= {"rates": {start: self.rate(start) for start in starts}}
        chosen |= {"tuning": [_json(path) for path in sorted(self.results.glob("tune-*.json"))]}
        figures(self.given.result, self.given.env, rows, chosen)
        return True

    def clones(self, start: str) -> dict[int, float]:
        """The success of each clone that was made."""
        each = [_json(path) for path in self.results.glob(f"clone-{start}-*.json")]
        return {clone["walkthroughs"]: clone["success"] for clone in each}

    def number(self, start: str) -> int:
        """How many walkthroughs the rule has chosen."""
        made = self.clones(start)

        def success(number: int) -> float:
            if number not in made:
                raise InputError(f"{self.results}: start '{start}' is not chosen yet: `clone` chooses it")
            return made[number]

        return searched(success, self.plan.first, self.plan.window)

    def rate(self, start: str) -> float:
        """The learning rate that the rule has chosen for runs from `start`."""
        successes = {}
        for rate in self.plan.rates:
            path = self._path(self._tuning(start, rate).name)
            if not path.exists():
                raise InputError(f"{path}: missing: `tune` makes it")
            successes[rate] = measures(_json(path))["success"]
        return chosen_rate(successes, self.plan.close)

    def _tuning(self, start: str, rate: float) -> Run:
        return Run("tune", start, "grpo", self.plan.tune_seeds[start], rate)

    def _success(self, start: str, number: int) -> float:
        """The success of a clone; it is made and played now unless its result is there."""
        path = self._path(f"clone-{start}-{number}")
        playing = {
            "split": self.plan.chosen_on,
            "episodes": self.plan.episodes,
            "max-steps": self.plan.steps,
            "max-new-tokens": self.plan.tokens,
            "max-prompt-tokens": self.plan.context,
            "temperature": self.plan.train["rollout.temperature"],
            "dtype": self.plan.dtype,
        }
        settings = {"base": self._base(), "sft": self._cloning(start, number), "collect": playing}
        settings |= {"longest": self.plan.longest} if self.plan.longest else {}
        if not path.exists():
            place = {"policy": f"hf:{self._model(start, number)}", "batch-size": self.given.batch_size}
            place |= {"cache-gib": self.given.cache_gib, "batch-tokens": self.given.rollout_tokens}
            played = _printed([*self._world("collect"), *_flags({**playing, **place})])
            figures = {name: played[name] for name in ("success", "episodes", "mean_length", "invalid_actions")}
            files.write_json(path, {"start": start, "walkthroughs": number, **figures, "settings": settings})
        result = _json(path)
        if result["settings"] != settings:
            raise InputError(f"{path}: was made with other settings or another --model; give another --out")
        return float(result["success"])

    def _base(self) -> str:
        """What the pretrained model is."""
        folder = Path(self.given.model)
        if not folder.is_dir():
            raise InputError(f"--model {folder}: no such folder: give the folder of the pretrained model")
        return files.digest(path for path in folder.iterdir() if path.suffix in (".safetensors", ".json"))

    def _cloning(self, start: str, number: int) -> dict[str, Any]:
        return {**self.plan.clone, "episodes": number, "target": start, "context": self.plan.context}

    def _model(self, start: str, number: int) -> Path:
        """The clone of so many walkthroughs; made now unless it is there."""
        folder, demonstrations = (self.work / f"{kind}-{start}-{number}" for kind in ("clone", "walkthroughs"))
        if not (folder / "model").is_dir():
            if not demonstrations.is_dir():
                world = envs.load(self.given.env, self.given.data, dict(self.plan.options))
                demonstrate(world, demonstrations, number, self.plan.walkthroughs, self.plan.longest)
            flags = {**self._cloning(start, number), "model": self.given.model, "out": folder}
            _printed(["sft", str(demonstrations), *_flags(flags), "--overwrite"])
            for name in ("checkpoints", "training_state.pt"):  # five times the model's size
                files.delete(folder / name)
        return folder / "model"

    def _settings(self, run: Run) -> dict[str, Any]:
        """What decides a run, beside its start."""
        tuning = run.stage == "tune"
        split = self.plan.chosen_on if tuning else self.plan.judged_on
        return {
            **self.plan.train,
            **(self.plan.tuning if tuning else {}),
            **self.plan.arms[run.arm],
            "update.lr": run.rate,
            "max-steps": self.plan.steps,
            "rollout.max-new-tokens": self.plan.tokens,
            "rollout.max-prompt-tokens": self.plan.context,
            "evaluation.split": split,
            "seed": run.seed,
        }

    def _played(self, runs: Sequence[Run]) -> bool:
        """Whether all runs are done, after what the time allowed."""
        missing = [run for run in runs if not self._finished(run)]
        models = {start: self._model(start, self.number(start)) for start in sorted({run.start for run in missing})}
        tasks = [self._task(run, models[run.start]) for run in missing]
        spent = time.monotonic() - self._began
        left = None if self.given.minutes is None else 60 * self.given.minutes - spent
        ended = run_queue.play(tasks, self.given.jobs, left)
        done = len(runs) - len(missing) + len(ended.done)
        print(f"{done} of {len(runs)} runs done, {len(ended.failed)} failed", file=sys.stderr)
        return done == len(runs)

    def _finished(self, run: Run) -> bool:
        path = self._path(run.name)
        if path.exists() and _json(path)["settings"] != self._settings(run):
            raise InputError(f"{path}: was made with other settings; give another --out")
        return path.exists()

    def _task(self, run: Run, model: Path) -> run_queue.Task:
        folder = self.work / run.name
        machine = {
            "batch-size": self.given.batch_size,
            "rollout.cache-gib": self.given.cache_gib,
            "rollout.batch-tokens": self.given.rollout_tokens,
            "update.batch-tokens": self.given.batch_tokens,
            "checkpoint-every": max(1, self._settings(run)["updates"] // 6),
            "keep-checkpoints": 1,
        }
        place = {"model": model, "out": folder}
        words = [*WORLDLINE, *self._world("train"), *_flags({**self._settings(run), **machine, **place}), "--resume"]
        log = self.work / f"{run.name}.log"
        return run_queue.Task(run.name, tuple(words), log, partial(self._keep, run, folder, log))

    def _keep(self, run: Run, folder: Path, log: Path, code: int, seconds: float) -> bool:
        """The run's JSON, if it ended properly or exploded; then its checkpoints and episodes are not needed."""
        exploded = code != 0 and "exploded: lower" in log.read_text(encoding="utf-8", errors="replace")
        if code != 0 and not exploded:
            return False
        row = {"env": self.given.env, "start": run.start, "variant": run.arm, "seed": run.seed, "rate": run.rate}
        row |= {"seconds": seconds, "beside": self.given.jobs, "exploded": exploded, "settings": self._settings(run)}
        row |= {"walkthroughs": self.number(run.start), **kept(folder, self._settings(run) if exploded else None)}
        files.write_json(self._path(run.name), row)
        for name in ("checkpoints", "log"):
            files.delete(folder / name)
        return True

    def _path(self, name: str) -> Path:
        return self.results / f"{name}.json"

    def _world(self, verb: str) -> list[str]:
        options = {f"options.{name}": value for name, value in self.plan.options.items()}
        return [verb, self.given.env, *_flags({**({"data": self.given.data} if self.given.data else {}), **options})]


def chosen_rate(successes: Mapping[float, float], close: float) -> float:
    """The smallest rate whose success is within `close` of the best."""
    best = max(successes.values())
    return min(rate for rate, success in successes.items() if success >= best - close)


def _printed(words: Sequence[str]) -> dict[str, Any]:
    """What a verb of worldline prints with --json."""
    done = subprocess.run([*WORLDLINE, *words, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise WorldlineError(f"worldline {' '.join(words)}: ended with exit code {done.returncode}")
    return dict(json.loads(done.stdout))


def _flags(settings: Mapping[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))
