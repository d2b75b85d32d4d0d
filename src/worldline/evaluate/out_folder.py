"""The folder of an evaluation: evaluation.json and imagined episodes, written whole, by one evaluation at a time."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worldline import files, store
from worldline.evaluate.result import Evaluation
from worldline.evaluate.settings import EvaluateConfig
from worldline.types import InputError, Trajectory

RESULT, IMAGINED = "evaluation.json", "imagined"


def save(out: Path, evaluation: Evaluation, imagined: Iterable[Trajectory]) -> None:
    """Write the folder of an evaluation. What an earlier one left there stays until its successor is whole.

    evaluation.json is written last: while it is missing or old, so is the evaluation.
    """
    episodes = list(imagined)
    if episodes:
        with files.replacing(out / IMAGINED) as partial, store.StoreWriter(partial) as writer:
            for episode in episodes:
                writer.append(episode)
    evaluation.write(out / RESULT)
    if not episodes:
        files.delete(out / IMAGINED)


@contextmanager
def reserved(config: EvaluateConfig) -> Iterator[None]:
    """Hold the folder --out, if it may be written; nobody else evaluates into it meanwhile."""
    if config.out is None:
        yield
        return
    _refuse_taken(config, config.out)
    with files.locked(config.out / ".lock", taken=f"--out {config.out}: another evaluation is writing there"):
        files.remove_leftovers(config.out)
        _refuse_taken(config, config.out)
        yield


def _refuse_taken(config: EvaluateConfig, out: Path) -> None:
    imagined = out / IMAGINED
    for log in config.log:
        if imagined.resolve() in (log.resolve(), *log.resolve().parents):
            raise InputError(f"--log {log}: is where --out {out} keeps imagined episodes: give another --out")
    if (out / RESULT).exists() and not config.overwrite:
        raise InputError(f"{out / RESULT}: there is an evaluation already: --overwrite replaces it")
    worlds = {env for shard in store.shards(imagined) for env in store.scan(shard, ["env"])["env"].to_pylist()}
    if not all(env.startswith("imagined:") for env in worlds):
        raise InputError(f"{imagined}: holds episodes that were not imagined: move them, or give another --out")
