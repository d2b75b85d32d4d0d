"""The folder of an evaluation, `--out`: what is there from earlier is neither replaced in silence nor mixed with."""

from pathlib import Path

from worldline import store
from worldline.evaluate.settings import EvaluateConfig
from worldline.types import InputError

IMAGINED = "imagined"


def free_path(config: EvaluateConfig) -> Path | None:
    """Where evaluation.json will go, if it may."""
    if config.out is None:
        return None
    if config.out.exists() and not config.out.is_dir():
        raise InputError(f"--out {config.out}: is a file: give a folder")
    kept = (config.out / IMAGINED).resolve()
    for log in config.log:
        if kept in (log.resolve(), *log.resolve().parents):
            raise InputError(f"--log {log}: is where --out {config.out} keeps imagined episodes: give another --out")
    path = config.out / "evaluation.json"
    if path.exists() and not config.overwrite:
        raise InputError(f"{path}: there is an evaluation already: --overwrite replaces it")
    return path


def forget(config: EvaluateConfig) -> None:
    """Delete what an earlier evaluation, replaced or interrupted, imagined; a shard with anything real in it stays."""
    for shard in store.shards(config.out / IMAGINED) if config.out is not None else ():
        if all(env.startswith("imagined:") for env in store.scan(shard, ["env"])["env"].to_pylist()):
            shard.unlink()
