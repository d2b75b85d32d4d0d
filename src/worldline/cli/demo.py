"""`worldline demo`: the loop on the embedded household world, with a small language model trained on the spot."""

import shutil
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from worldline.cli import collect as collect_verb
from worldline.cli import sft as sft_verb
from worldline.cli.outcome import Outcome, note, table
from worldline.collect import CollectConfig
from worldline.config import Config, option
from worldline.sft import SftConfig
from worldline.types import InputError

Mode = Literal["generate", "choose"]


class Settings(Config):
    """Clone the household expert into a small language model, then play expert, clone and random on unseen layouts.

    The clone is shown as it learned (the number is the update), and once more choosing among the admissible actions
    instead of writing freely.

    Needs no network, no key, no GPU: two cores and a few minutes.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline demo", "worldline demo --episodes 200 --out my-demo --overwrite")

    out: Path = option(Path("demo"), help="folder of the demo's model and logs")
    episodes: int = option(100, help="episodes per policy", ge=1)
    demonstrations: int = option(2500, help="expert episodes to clone", ge=10)
    seed: int = option(0, help="decides every random draw")
    overwrite: bool = option(False, help="start anew in a folder that holds a demo")


def run(settings: Settings) -> Outcome:
    started = time.perf_counter()
    if settings.out.exists() and any(settings.out.iterdir()):
        if not settings.overwrite:
            raise InputError(f"{settings.out}: holds an earlier demo: --overwrite starts anew, --out goes elsewhere")
        shutil.rmtree(settings.out)
    clone = settings.out / "clone"
    note("1/2  cloning the expert into a small language model")
    cloned = sft_verb.run(
        SftConfig(source="household", out=clone, episodes=settings.demonstrations, checkpoints=4, seed=settings.seed)
    )
    ladder = [f"hf:{path}" for path in sorted((clone / "checkpoints").iterdir())]
    agents: dict[str, tuple[str, Mode]] = {
        "expert": ("expert", "generate"),
        **{f"clone {spec[-6:]}": (spec, "generate") for spec in ladder},
        "clone, choosing": (ladder[-1], "choose"),
        "random": ("random", "generate"),
    }
    note("2/2  playing every policy on layouts it has not seen")
    rows = [_play(name, spec, mode, settings) for name, (spec, mode) in agents.items()]
    data = {"policies": rows, "sft": cloned.data, "seconds": time.perf_counter() - started, "out": str(settings.out)}
    drawn = table(
        "household, unseen layouts",
        ("policy", "success", "95 % interval", "steps/episode"),
        [
            (
                row["policy"],
                f"{row['success']:.2f}",
                f"[{row['success_low']:.2f}, {row['success_high']:.2f}]",
                f"{row['mean_length']:.1f}",
            )
            for row in rows
        ],
    )
    return Outcome(data, (drawn, f"{data['seconds']:.0f} s; model and logs are in {settings.out}/"))


def _play(name: str, spec: str, mode: Mode, settings: Settings) -> dict[str, Any]:
    config = CollectConfig(
        env="household",
        policy=spec,
        mode=mode,
        name=name,
        split="unseen",
        episodes=settings.episodes,
        seed=settings.seed,
        out=settings.out / "log",
    )
    return collect_verb.run(config).data
