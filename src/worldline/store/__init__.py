"""The trajectory store: a folder of Parquet shards, one row per episode, that everybody's tools read as it is."""

from worldline.store.reader import (
    RowGroup,
    batches,
    check_policies,
    check_unique,
    count,
    ids,
    read,
    read_row_group,
    row_groups,
    scan,
    shards,
)
from worldline.store.writer import StoreWriter, export_parquet

__all__ = [
    "RowGroup",
    "StoreWriter",
    "batches",
    "check_policies",
    "check_unique",
    "count",
    "export_parquet",
    "ids",
    "read",
    "read_row_group",
    "row_groups",
    "scan",
    "shards",
]
