"""What `worldline fit` costs as the log grows: seconds and peak memory of the whole command, in a process of its own.

The log is played on the spot: the household's expert with three shares of chance. One member is trained for one epoch.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from worldline import envs, policies, store
from worldline.bench import Figures
from worldline.config import Config, option
from worldline.policies import PolicyConfig
from worldline.rollout import Rollout, plan
from worldline.types import InputError, WorldlineError

EPSILONS = (0.1, 0.4, 0.8)
ROUND = 512
"""Episodes of a logger before the next has its turn."""


class FitBenchConfig(Config):
    """Seconds and peak memory of `worldline fit` on logs of the tiny household, reading included; the memory is that of
    the process less that of the networks' weights.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench fit",
        "worldline bench fit --steps 10000 100000 --members 0 --json",
    )

    steps: tuple[int, ...] = option((100_000, 1_000_000), help="sizes of the logs, 1,000 at least", min_length=1)
    members: int = option(1, help="networks; 0: wm alone", ge=0)
    epochs: int = option(1, help="times that each network sees the log", ge=1)
    kernel_steps: int = option(50_000, help="as in worldline fit", ge=100)
    out: Path | None = option(
        None, help="keep the logs here, and use those that are there; default: a temporary folder"
    )
    seed: int = option(0, help="decides the logs and the fits")


Settings = FitBenchConfig


def run(settings: FitBenchConfig) -> Figures:
    """Seconds and memory at every size; the figures are those of the largest."""
    if min(settings.steps) < 1000:
        raise InputError(f"--steps: logs of 1,000 steps at least, got {min(settings.steps)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = settings.out or Path(temporary)
        rows = [
            _measured(kept_log(folder, steps, settings.seed), Path(temporary), settings) for steps in settings.steps
        ]
    names = ("seconds", "peak_gb", "beyond_the_model_gb")
    growth = {f"{name}_growth": rows[-1][name] / rows[0][name] for name in names[:2]} if len(rows) > 1 else {}
    return Figures({name: rows[-1][name] for name in names} | growth, rows)


def kept_log(folder: Path, steps: int, seed: int) -> Path:
    """The log of so many steps: the one that is there, or one that is played now."""
    log = folder / f"log-{steps}-{seed}"
    if not log.is_dir():
        write_log(log.with_suffix(".partial"), steps, seed)
        log.with_suffix(".partial").rename(log)
    return log


def write_log(folder: Path, steps: int, seed: int) -> int:
    """Play episodes until the log has so many steps; how many it has."""
    world = envs.load("household", options={"level": "tiny"})
    written, again = 0, 0
    with store.StoreWriter(folder, flush_every=ROUND) as writer:
        while True:
            for epsilon in EPSILONS:
                expert = policies.mix(policies.load("expert", world, PolicyConfig()), epsilon)
                player = Rollout(world, expert, policy_name=f"expert-{epsilon:g}", epsilon=epsilon)
                wanted = plan(world, "train", ROUND, seed=seed + again, run=f"round{again}-{epsilon:g}")
                for episode in player.play(wanted):
                    writer.append(episode)
                    written += len(episode)
                    if written >= steps:
                        return written
            again += 1


def _measured(log: Path, folder: Path, settings: FitBenchConfig) -> dict[str, Any]:
    """Fit on the log in a process of its own."""
    out = folder / f"world-model-{log.name}"
    words = ["fit", str(log), "--out", str(out), "--members", str(settings.members), "--epochs", str(settings.epochs)]
    words += ["--kernel-steps", str(settings.kernel_steps), "--seed", str(settings.seed), "--device", "cpu"]
    words += ["--jobs", "1", "--json"]  # one process holds all the memory
    begun = time.perf_counter()
    with (folder / "printed").open("wb") as printed:
        child = subprocess.Popen([sys.executable, "-m", "worldline", *words], stdout=printed, stderr=printed)
        _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise WorldlineError(f"worldline fit failed: {(folder / 'printed').read_text()[-500:]}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    model = sum(path.stat().st_size for path in out.glob("member-*/model.safetensors"))
    figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))["figures"]
    lengths = store.scan(log, ["length"])["length"].to_numpy()
    return {
        "steps": int(lengths.sum()),
        "episodes": len(lengths),
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": peak / 1e9,
        "beyond_the_model_gb": (peak - model) / 1e9,
        "wm_held_out_steps": figures["wm_held_out_steps"],
        "wm_exact": figures["wm_exact"],
    }
