"""`jsonl`: our own export, one trajectory per line, which comes back exactly as it went out.

Every line is JSON that any parser reads: numbers that JSON cannot write are the texts "NaN", "Infinity" and
"-Infinity".
"""

import gzip
import json
import lzma
import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, cast

from pydantic_core import PydanticSerializationError

from worldline import files
from worldline.logs.source import ImportSource, present
from worldline.types import SCHEMA_VERSION, InputError, Trajectory


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One line as the trajectory it was; ValueError if it is none."""
    version = present(row).get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema version {version}, this worldline reads version {SCHEMA_VERSION}")
    if source.options.reward or source.options.score:
        raise InputError(f"{source.path}: a JSONL export has its rewards and scores in place: leave the options out")
    given = source.options.model_dump(include={"env", "policy", "split"}, exclude_defaults=True)
    trajectory = Trajectory.model_validate({**row, **given})
    numbers = {f"steps.{k}.reward": step.get("reward") for k, step in enumerate(row["steps"])}
    for field, number in {**numbers, "score": row.get("score")}.items():
        if isinstance(number, float) and not math.isfinite(number):  # bare, as Python's parser takes it
            raise ValueError(f'{field}: not a finite number (write "NaN", in quotes, for an unknown one)')
    return trajectory


def export_jsonl(trajectories: Iterable[Trajectory], path: Path | str) -> int:
    """Write one line per trajectory and say how many. The file appears whole or not at all; `.gz`, `.xz` compress."""
    target = files.new_file(path)
    written = 0
    with files.replacing(target) as partial, partial.open("xb") as raw, _compressed(raw, target.suffix) as file:
        for trajectory in trajectories:
            file.write(_line(trajectory))
            written += 1
    return written


def _line(trajectory: Trajectory) -> bytes:
    try:
        return trajectory.model_dump_json().encode() + b"\n"
    except PydanticSerializationError:  # a lone surrogate, which only an escape can write
        return json.dumps(_writable(trajectory.model_dump())).encode() + b"\n"


def _writable(value: Any) -> Any:
    """A dumped value with what JSON cannot write as texts."""
    if isinstance(value, dict):
        return {name: _writable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(part) for part in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


def _compressed(raw: IO[bytes], suffix: str) -> AbstractContextManager[IO[bytes]]:
    if suffix == ".gz":
        return cast(AbstractContextManager[IO[bytes]], gzip.GzipFile(fileobj=raw, mode="wb", mtime=0))
    return cast(AbstractContextManager[IO[bytes]], lzma.open(raw, "wb")) if suffix == ".xz" else nullcontext(raw)
