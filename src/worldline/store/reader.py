"""Reading: by episode (`read`) or by column (`scan`), over one or several folders, filtered where they lie.

A log is given as a folder of shards, as a run folder that holds `log/`, or as one shard. Row groups without a
matching episode are not opened beyond the columns the filter names. Episodes come in the order they were written,
folder after folder. A broken shard raises, unless the caller takes the errors (`on_bad`) and goes on with the rest.

A shard's name carries a digest of its bytes, so one that has changed on the disk is broken, whatever it says. Shards
of other tools, and of writers before that, have no such name and are read without.
"""

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from worldline.config import listed, suggest
from worldline.nearby import nearby
from worldline.store.schema import OPTIONAL, SCHEMA, STEP, VERSION_KEY, to_trajectories
from worldline.types import SCHEMA_VERSION, InputError, Trajectory, policy_label

Folders = Path | str | Sequence[Path | str]
OnBad = Callable[[InputError], None]
"""Takes the error of each unreadable shard, which is then left out; without one the first such error is raised."""
T = TypeVar("T")


class Where(TypedDict, total=False):
    """Which episodes: those whose value is among the given ones, for every filter given (None: no filter).

    A policy is given by its name, which means all its epsilons, or as `expert@0.2` (`expert@0`: without chance). A text
    is taken as one value.
    """

    policies: Collection[str] | None
    tasks: Collection[str] | None
    splits: Collection[str] | None
    ids: Collection[str] | None


_FILTERED = {"policies": "policy", "tasks": "task_id", "splits": "split", "ids": "id"}
_STEP_FIELDS = [f"steps.{field.name}" for field in STEP]
_NAME = re.compile(r"\d{20}-([0-9a-f]{32})\.parquet")
_AT_ONCE = 64
"""Episodes of a row group that are objects at once."""
_BROKEN = (pa.ArrowException, OSError, ValidationError, UnicodeDecodeError)


def read(folders: Folders, *, on_bad: OnBad | None = None, **where: Unpack[Where]) -> Iterator[Trajectory]:
    """The episodes that match. Every shard's footer is checked before the first episode comes out."""
    paths = _checked(folders, on_bad)
    mine = _by_column(where)

    def episodes(path: Path) -> list[Trajectory]:
        return list(to_trajectories(_table(path, SCHEMA.names, mine)))

    return (episode for shard in _each(paths, episodes, on_bad) for episode in shard)


def scan(folders: Folders, columns: Sequence[str], *, on_bad: OnBad | None = None, **where: Unpack[Where]) -> pa.Table:
    """The given columns of the episodes that match. `steps.reward` opens one field of the steps and leaves the rest."""
    _refuse_unknown(columns)
    mine = _by_column(where)
    tables = _each(_checked(folders, on_bad), lambda path: _table(path, columns, mine), on_bad)
    return pa.concat_tables([_projection(columns).empty_table(), *tables])


def batches(folders: Folders, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The given columns, a row group at a time: what is done with need not stay in memory."""
    _refuse_unknown(columns)
    for path in _checked(folders, None):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                yield from _each([path], functools.partial(_row_group, file, group, columns), None)


@dataclass(frozen=True)
class RowGroup:
    """What is read at once of a log that need not fit into memory."""

    path: Path
    number: int
    episodes: int


def row_groups(folders: Folders) -> list[RowGroup]:
    """Those of a log in its order, by the footers alone. Every shard is checked."""
    groups = []
    for path in _checked(folders, None):
        footer = pq.read_metadata(path)
        groups += [RowGroup(path, at, footer.row_group(at).num_rows) for at in range(footer.num_row_groups)]
    return groups


def read_row_group(group: RowGroup, rows: Sequence[int] | None = None) -> Iterator[Trajectory]:
    """The episodes of a row group, or those at `rows` of it: decoded as columns, then made a few at a time."""

    def parts(path: Path) -> Iterator[pa.Table]:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = _row_group(file, group.number, SCHEMA.names, path)
        table = table if rows is None else table.take(pa.array(rows, pa.int64()))
        return (table.slice(start, _AT_ONCE) for start in range(0, len(table), _AT_ONCE))

    def episodes(part: pa.Table) -> list[Trajectory]:
        (made,) = _each([group.path], lambda path: list(to_trajectories(part)), None)
        return made

    return (episode for tables in _each([group.path], parts, None) for part in tables for episode in episodes(part))


def _refuse_unknown(columns: Sequence[str]) -> None:
    for column in columns:
        if column not in SCHEMA.names and column not in _STEP_FIELDS:
            raise InputError(f"a log has no column '{column}'{suggest(column, [*SCHEMA.names, *_STEP_FIELDS])}")


def ids(folder: Path | str) -> set[str]:
    """The ids of the episodes that are there: what a resumed run need not do again. Empty where no log is yet."""
    if not shards(folder):
        return set()
    return set(scan(folder, ["id"])["id"].to_pylist())


def count(folders: Folders) -> int:
    """How many episodes there are, by the footers alone."""
    return sum(_each(_checked(folders, None), lambda path: pq.read_metadata(path).num_rows, None))


def check_unique(folders: Folders) -> None:
    """InputError if an episode is there more than once, as when one log is given twice."""
    counted = Counter(scan(folders, ["id"])["id"].to_pylist())
    repeated = sorted(name for name, times in counted.items() if times > 1)
    if repeated:
        where = ", ".join(map(str, _as_list(folders)))
        more = f" (so are {len(repeated) - 1} more)" if len(repeated) > 1 else ""
        times = counted[repeated[0]]
        raise InputError(f"{where}: episode '{repeated[0]}' is there {times} times{more}: give each log once")


def check_policies(folders: Folders, wanted: Collection[str]) -> None:
    """InputError if a policy is wanted, by name or label, of which there is no episode: a slip, else hidden."""
    distinct = scan(folders, ["policy", "epsilon"]).group_by(["policy", "epsilon"]).aggregate([]).to_pylist()
    labels = sorted({policy_label(row["policy"], row["epsilon"]) for row in distinct})
    there = {name for row in distinct for name in (row["policy"], _exact_label(row["policy"], row["epsilon"]))}
    for name in _texts(wanted):
        if name not in there:
            raise InputError(f"--policies: no episode has the policy '{name}': there are {listed(name, labels)}")


def shards(folder: Path | str) -> list[Path]:
    """The shards of a log in the order they were written; none if there is no such folder."""
    path = Path(folder)
    if path.is_file():
        return [path]
    return sorted(path.glob("*.parquet")) or sorted((path / "log").glob("*.parquet"))


def shard_name(time_ns: int, data: bytes) -> str:
    """The name of a shard: when it was written, and a digest of its bytes."""
    return f"{time_ns:020d}-{hashlib.blake2b(data, digest_size=16).hexdigest()}.parquet"


def shard_ids(path: Path) -> frozenset[str]:
    """The ids in one shard, which is opened once for the life of the process."""
    (ids,) = _each([path], lambda path: _ids(path, *_stamp(path)), None)
    return ids


@functools.cache
def _ids(path: Path, *stamp: int) -> frozenset[str]:
    return frozenset(_table(path, ["id"], {})["id"].to_pylist())


def _as_list(folders: Folders) -> list[Path | str]:
    return [folders] if isinstance(folders, Path | str) else list(folders)


def _checked(folders: Folders, on_bad: OnBad | None) -> list[Path]:
    """The shards of all folders that are whole and ours, by their footers."""
    paths: list[Path] = []
    for folder in _as_list(folders):
        if not Path(folder).exists():
            raise InputError(f"{folder}: no such log{nearby(folder)}")
        inside = shards(folder)
        if not inside:
            raise InputError(
                f"{folder}: holds no log: there is no *.parquet file in it, nor in a folder 'log' of it{_other(folder)}"
            )
        paths += inside
    return list(_each(paths, _check, on_bad))


def _other(folder: Path | str) -> str:
    """The way from a folder of other tools' logs to one of ours."""
    others = sorted(path for path in Path(folder).glob("*.json*") if path.is_file())
    return f": `worldline import {others[0]} --out logs/` makes one" if others else ""


def _each(paths: Sequence[Path], work: Callable[[Path], T], on_bad: OnBad | None) -> Iterator[T]:
    """`work` of each shard, with what goes wrong inside it raised as one line that names the file."""
    for path in paths:
        try:
            result = work(path)
        except _BROKEN as error:
            reason = " ".join(str(error).split())[:200]
            shard = path.suffix == ".parquet"
            problem = InputError(
                f"{path}: broken shard: {reason}: delete it, or restore it from a copy"
                if shard
                else f"{path}: no worldline log: `worldline import {path} --out logs/` makes one"
            )
        except InputError as error:
            problem = error
        else:
            yield result
            continue
        if on_bad is None:
            raise problem
        on_bad(problem)


def _check(path: Path) -> Path:
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        version = (schema.metadata or {}).get(VERSION_KEY)
        if version not in (None, str(SCHEMA_VERSION).encode()):
            raise _wrong_version(path, version.decode(errors="replace"))
        columns = set(schema.names)
        for name in SCHEMA.names:
            if name not in columns:
                raise InputError(f"{path}: a Parquet file, but no worldline log: it has no column '{name}'")
        if version is None:  # other tools drop the file's metadata when they write a log anew
            others = set(file.read(["schema_version"])["schema_version"].to_pylist()) - {SCHEMA_VERSION}
            if others:
                raise _wrong_version(path, str(others.pop()))
    named = _NAME.fullmatch(path.name)
    if named and _digest(path, *_stamp(path)) != named[1]:
        how = "restore it from a copy, or delete it (if it was changed on purpose: rename it)"
        raise InputError(f"{path}: broken shard: its bytes are not those that were written: {how}")
    return path


@functools.cache
def _digest(path: Path, *stamp: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int]:
    """What changes when the file does: an answer that was computed under the same stamp still holds."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _wrong_version(path: Path, version: str) -> InputError:
    how = "export it to JSONL with the worldline that wrote it"
    return InputError(f"{path}: schema version {version}, this worldline reads version {SCHEMA_VERSION}: {how}")


def _table(path: Path, columns: Sequence[str], where: dict[str, pa.Array]) -> pa.Table:
    """The columns of the matching episodes of one shard."""
    tables = [_projection(columns).empty_table()]
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            keep = None
            if where:
                keys = _row_group(file, group, [*where, *(["epsilon"] if "policy" in where else [])], path)
                for name, wanted in where.items():
                    matches = pc.is_in(keys[name], wanted)
                    if name == "policy":
                        matches = pc.or_(matches, pc.is_in(_exact_labels(keys), wanted))
                    keep = matches if keep is None else pc.and_(keep, matches)
                if not pc.any(keep).as_py():
                    continue
            table = _row_group(file, group, columns, path)
            tables.append(table if keep is None else table.filter(keep))
    return pa.concat_tables(tables)


def _row_group(file: pq.ParquetFile, group: int, columns: Sequence[str], path: Path) -> pa.Table:
    """The columns of one row group, in our types and without a null where an episode needs a value."""
    target = _projection(columns)
    inside = [column.replace("steps.", "steps.list.element.", 1) for column in columns]
    table = file.read_row_group(group, columns=inside)
    missing = [name for name in target.names if name not in table.column_names]
    if missing:
        raise InputError(f"{path}: has no column '{missing[0]}' as a log needs it: delete the shard, or restore it")
    table = table.select(target.names).cast(target)
    for name in table.column_names:
        for chunk in table[name].chunks:
            _refuse_nulls(path, name, chunk)
    return table


def _refuse_nulls(path: Path, column: str, values: pa.Array) -> None:
    if values.null_count and column not in OPTIONAL:
        raise InputError(f"{path}: column '{column}' holds a null: give every episode a value there")
    if pa.types.is_list(values.type):
        struct = pa.types.is_struct(values.type.value_type)
        _refuse_nulls(path, column if struct else f"{column}.item", values.flatten())
    elif pa.types.is_struct(values.type):
        for field in values.type:
            _refuse_nulls(path, f"{column}.{field.name}", pc.struct_field(values, field.name))


def _projection(columns: Sequence[str]) -> pa.Schema:
    """The schema of what `columns` ask for: whole columns, and steps cut down to the fields named."""
    fields = {}
    for column in columns:
        name = column.partition(".")[0]
        kind = SCHEMA.field(name).type
        if name == "steps" and name not in columns:
            kind = pa.list_(pa.struct([field for field in STEP if f"steps.{field.name}" in columns]))
        fields[name] = kind
    return pa.schema(fields)


def _by_column(where: Where) -> dict[str, pa.Array]:
    given: dict[str, Any] = {_FILTERED[name]: values for name, values in where.items() if values is not None}
    return {column: pa.array(_texts(values), pa.string()) for column, values in given.items()}


def _texts(values: Collection[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _exact_labels(keys: pa.Table) -> pa.ChunkedArray:
    policies, epsilons = keys["policy"].to_pylist(), keys["epsilon"].to_pylist()
    return pa.chunked_array([list(map(_exact_label, policies, epsilons))], pa.string())


def _exact_label(name: str, epsilon: float) -> str:
    """The label of a policy at this epsilon alone, where its bare name means every epsilon."""
    return policy_label(name, epsilon) if epsilon else f"{name}@0"
