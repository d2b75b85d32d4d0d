"""The trajectory store: a folder of Parquet shards, one row per episode, that everybody's tools read as it is."""

from worldline.store.reader import batches, check_unique, count, ids, read, scan, shards
from worldline.store.writer import StoreWriter, export_parquet

__all__ = ["StoreWriter", "batches", "check_unique", "count", "export_parquet", "ids", "read", "scan", "shards"]
