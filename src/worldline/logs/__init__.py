"""Other people's logs in, ours out: `read` makes trajectories of a file, `export_jsonl` writes them to one."""

from worldline.logs.importer import AUTO, FORMATS, bad_rows, expand, format_of, read
from worldline.logs.jsonl import export_jsonl
from worldline.logs.rows import BadRow
from worldline.logs.source import Options
from worldline.logs.traces import export_traces

__all__ = [
    "AUTO",
    "FORMATS",
    "BadRow",
    "Options",
    "bad_rows",
    "expand",
    "export_jsonl",
    "export_traces",
    "format_of",
    "read",
]
