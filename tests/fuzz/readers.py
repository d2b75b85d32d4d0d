"""What is fuzzed: each reader of data that others wrote, with its seeds, its mutations and the file they make.

A reader may refuse (WorldlineError) and may report bad rows; whatever else it raises is a defect.
"""

import csv
import gzip
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import mutate
from worldline import command_line, logs, store
from worldline.collect import CollectConfig
from worldline.config import Config, Folder, option, positional
from worldline.policies.api import APIPolicy
from worldline.policies.settings import PolicyConfig
from worldline.post import Reply
from worldline.store.schema import SCHEMA, mend, to_table
from worldline.types import InputError, Step, Trajectory, Turn

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Reader:
    """One reader: where its seeds are, how a mutant is made of one, and how a file of it is read."""

    corpus: str
    mutant: mutate.Mutate
    suffix: str
    read: Callable[[Path], object]

    def seeds(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((CORPUS / self.corpus).iterdir())]


def imported(name: str) -> Callable[[Path], object]:
    """Reads a file as `worldline import` does, to the point where every episode could be stored."""

    def read(path: Path) -> None:
        episodes: list[Trajectory] = list(logs.read(name, path, on_bad=lambda row: str(row)))
        if episodes:
            to_table(episodes)
        assert len({mend(episode.id) for episode in episodes}) == len(episodes), "an id is there twice"

    return read


def packed(seed: bytes, chance: Random) -> bytes:
    """JSON rows, often compressed, and what is compressed sometimes damaged."""
    mutant = mutate.mutate_json(seed, chance)
    pack = chance.choice([bytes, bytes, bytes, _gzip, _xz])
    data = pack(mutant)
    return mutate.mutate_bytes(data, chance) if pack is not bytes and chance.random() < 0.5 else data


def csv_lines(seed: bytes, chance: Random) -> bytes:
    """A table as CSV: values changed, or bytes."""
    rows = [json.loads(line) for line in seed.splitlines()]
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(rows[0]), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return mutate.mutate_bytes(sink.getvalue().encode(), chance)


def columns(seed: bytes, chance: Random) -> bytes:
    """A table as Parquet with its bytes changed."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([json.loads(line) for line in seed.splitlines()]), sink)
    return mutate.mutate_bytes(sink.getvalue(), chance)


def archive(seed: bytes, chance: Random) -> bytes:
    """An Inspect log as an archive: the samples changed, or the archive."""
    mutant = mutate.mutate_json(seed, chance) if chance.random() < 0.6 else seed
    try:
        log = json.loads(mutant)
    except (ValueError, RecursionError):
        log = {"eval": None}
    log = log if isinstance(log, dict) else {"log": log}
    samples = log.pop("samples", [])
    entries = {"header.json" if chance.random() < 0.9 else "_journal/start.json": json.dumps(log).encode()}
    for number, sample in enumerate(samples if isinstance(samples, list) else [samples]):
        entries[f"samples/{number}.json"] = json.dumps(sample).encode()
    if chance.random() < 0.1:
        entries["samples/x.json"] = mutant
    data = _zip(entries, chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, 93]))
    return mutate.mutate_bytes(data, chance) if chance.random() < 0.6 else data


def shard(seed: bytes, chance: Random) -> bytes:
    """A Parquet file: ours with its bytes changed, or one that another tool could have made of other rows."""
    table = _table(seed, chance) if chance.random() < 0.4 else None
    sink = io.BytesIO()
    if table is None:
        rows = [Trajectory.model_validate_json(line) for line in seed.splitlines()]
        table = to_table(rows)[0]
    compression = chance.choice(["zstd", "none", "snappy", "gzip"])
    try:
        pq.write_table(table, sink, compression=compression, write_page_checksum=chance.random() < 0.5)
    except pa.ArrowException:  # Arrow makes tables that Parquet cannot hold, such as a struct without fields
        return shard(seed, chance)
    return mutate.mutate_bytes(sink.getvalue(), chance) if chance.random() < 0.8 else sink.getvalue()


def read_store(path: Path) -> None:
    list(store.read(path))
    store.scan(path, ["id", "steps.reward"], policies=["p"])
    store.count(path)


class Nested(Config):
    """Settings of every shape that a verb has."""

    env: str = positional(help="")
    out: Folder = option(help="")
    model: Path | None = option(None, help="")
    names: tuple[str, ...] = option((), help="")
    kind: Literal["a", "b"] = option("a", help="")
    options: dict[str, Any] = option({}, help="")
    rollout: PolicyConfig = PolicyConfig()
    evaluation: PolicyConfig = PolicyConfig()


def read_recipe(path: Path) -> None:
    problem = None
    for model in (CollectConfig, Nested):
        try:
            command_line.read(model, [str(path)])
        except InputError as error:
            problem = error
    if problem is not None:
        raise problem


TURN = Turn(family="household", goal="g", observation="o", admissible=["go north", "open the door"], history=())


def read_answer(path: Path) -> None:
    for prompt in ("plain", "react", "paper"):
        policy = APIPolicy("m", "http://localhost/v1", PolicyConfig(prompt=prompt, api_retries=0))
        policy._post = lambda body: Reply(200, path.read_bytes(), "")
        (decision,) = policy.act([TURN])
        step = Step(
            observation="",
            action=decision.action,
            response=decision.response,
            logprob=decision.logprob,
            token_logprobs=decision.token_logprobs,
        )
        to_table([Trajectory(id="a", env="e", task_id="t", policy="p", steps=(step,))])


READERS = {
    "episodes": Reader("episodes", packed, ".jsonl", imported("episodes")),
    "chat": Reader("chat", packed, ".jsonl", imported("chat")),
    "jsonl": Reader("jsonl", packed, ".jsonl", imported("jsonl")),
    "tau2": Reader("tau2", packed, ".json", imported("tau2")),
    "atif": Reader("atif", packed, ".json", imported("atif")),
    "verifiers": Reader("verifiers", packed, ".jsonl", imported("verifiers")),
    "openenv": Reader("openenv", packed, ".jsonl", imported("openenv")),
    "table": Reader("table", packed, ".jsonl", imported("table")),
    "table-csv": Reader("table", csv_lines, ".csv", imported("table")),
    "table-parquet": Reader("table", columns, ".parquet", imported("auto")),
    "any": Reader("verifiers", packed, ".jsonl", imported("auto")),
    "inspect-json": Reader("inspect", packed, ".json", imported("inspect")),
    "inspect-eval": Reader("inspect", archive, ".eval", imported("inspect")),
    "parquet": Reader("parquet", shard, ".parquet", read_store),
    "recipe": Reader("recipe", mutate.mutate_text, ".yaml", read_recipe),
    "api": Reader("api", mutate.mutate_json, ".json", read_answer),
}


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=1, mtime=0)


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


def _zip(entries: dict[str, bytes], method: int) -> bytes:
    """An archive by Python's zipfile, or with Zstandard (93), which that cannot write."""
    if method != 93:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w") as file:
            for name, data in entries.items():
                file.writestr(zipfile.ZipInfo(name), data, method)
        return sink.getvalue()
    body, directory = b"", b""
    for name, data in entries.items():
        small = pa.compress(data, codec="zstd", asbytes=True)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, zlib.crc32(data), len(small), len(data), len(name), 0)
        start = b"PK\x01\x02" + struct.pack("<H", 63) + common
        directory += start + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + common + name.encode() + small
    count = len(entries)
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def _table(seed: bytes, chance: Random) -> pa.Table | None:
    """Rows with other values, in the types that Arrow sees in them; None where it sees none."""
    whole = [Trajectory.model_validate_json(line).model_dump() for line in seed.splitlines()]
    for row in whole:
        row.update(meta=[{"key": key, "value": value} for key, value in row["meta"].items()], length=1)
        row["return"] = 0.0
    mutant = mutate.mutate_json(b"\n".join(json.dumps(row).encode() for row in whole), chance)
    try:
        rows = [row for line in mutant.splitlines() if isinstance(row := json.loads(line), dict)]
        table = pa.Table.from_pylist(rows)
    except (ValueError, RecursionError, OverflowError, pa.ArrowException, TypeError, KeyError):
        return None
    for name in set(SCHEMA.names) & set(table.column_names):  # most columns keep our types
        if chance.random() < 0.7:
            try:
                column = table[name].cast(SCHEMA.field(name).type)
            except pa.ArrowException:
                continue
            table = table.set_column(table.schema.get_field_index(name), name, column)
    return table if table.num_columns else None
