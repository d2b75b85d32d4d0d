"""Other people's logs in, ours out: `read` makes trajectories of a file, `export_jsonl` writes them to one."""

from worldline.logs.importer import FORMATS, bad_rows, read
from worldline.logs.jsonl import export_jsonl
from worldline.logs.rows import BadRow
from worldline.logs.source import Options

__all__ = ["FORMATS", "BadRow", "Options", "bad_rows", "export_jsonl", "read"]
