"""The trajectory store: a folder of Parquet shards, one row per episode, that everybody's tools read as it is."""

from worldline.store.reader import check_unique, count, ids, read, scan, shards
from worldline.store.writer import StoreWriter

__all__ = ["StoreWriter", "check_unique", "count", "ids", "read", "scan", "shards"]
