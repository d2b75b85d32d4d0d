"""CSV and Parquet files as rows: containers, whatever the rows say.

A cell of a CSV file that begins with `{` or `[` is read as JSON if it is JSON; an empty one says nothing. Rows are
read a few at a time.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worldline import files
from worldline.logs.rows import (
    MAX_ROW,
    BadRow,
    DecodedRow,
    beginning,
    json_rows,
    load_json,
    most_decompressed,
    open_bytes,
    too_large,
)
from worldline.types import InputError

_BATCH = 64


def any_rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The rows of a file, whichever kind it is: JSON lines, a JSON list, one JSON object, Parquet, CSV or TSV."""
    if beginning(path).startswith(b"PAR1"):
        return parquet_rows(path)
    return csv_rows(path) if is_csv(path) else json_objects(path)


def json_objects(path: Path) -> Iterator[DecodedRow | BadRow]:
    """JSON rows; a file that is one object over several lines is one row."""
    rows = json_rows(path)
    first = next(rows, None)
    if first is None:
        return
    if isinstance(first, BadRow) and first.where == "line 1":
        try:
            document = load_json(path)
        except InputError:
            document = None
        if isinstance(document, dict):
            yield DecodedRow("the document", document)
            return
    yield first
    yield from rows


def is_csv(path: Path) -> bool:
    """By its name: any line of text could be a line of CSV."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    return bool(suffixes) and suffixes[-1] in (".csv", ".tsv")


def parquet_rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups))
            if sum(groups) > most_decompressed(path):
                raise too_large(path)
            number = 0
            for batch in file.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield DecodedRow(f"row {number}", row)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise InputError(f"{path}: no Parquet file that can be read: {' '.join(str(error).split())[:200]}") from None


def csv_rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """A row per line, by the names in the first one."""
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    before = csv.field_size_limit(MAX_ROW)
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            names = next(reader, [])
            for cells in reader:
                where = f"line {reader.line_num}"
                if not cells:
                    continue
                if len(cells) != len(names):
                    yield BadRow(where, f"{len(cells)} cells, the first line names {len(names)}")
                else:
                    yield DecodedRow(where, {name: _cell(cell) for name, cell in zip(names, cells, strict=True)})
    except UnicodeDecodeError as error:
        yield BadRow("the file", files.not_utf8(error, whole=False))
    except (csv.Error, EOFError, OSError) as error:
        yield BadRow("the file", f"not CSV that can be read: {str(error)[:200]}")
    finally:
        csv.field_size_limit(before)


def _cell(text: str) -> Any:
    if not text:
        return None
    if text[0] in "[{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
