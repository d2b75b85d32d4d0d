"""`inspect`: logs of Inspect AI, as `.eval` archives or as JSON. One sample of one epoch is one episode.

The reward is the value of one scorer: `Options.reward` (`scorer`, or `scorer.key` where the value is a dict), else
the log's headline scorer, else the first. C, P, I and N count 1, 0.5, 0 and 0, as Inspect counts them. All scores
are kept in `meta`. Events, sub-agents' transcripts and sandboxes are left out: the sample's own messages are read.
"""

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from worldline.config import suggest
from worldline.logs.messages import Message, converse
from worldline.logs.rows import MAX_ROW, BadRow, DecodedRow, beginning, decode, load_json, most_decompressed, too_large
from worldline.logs.source import ImportSource, as_meta, pick, present, with_final_reward
from worldline.types import InputError, Trajectory

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ZSTD = 93
"""The compression Inspect uses by default, which Python's zipfile cannot read before 3.14."""
_ATTACHMENT = "attachment://"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, OverflowError, struct.error, zipfile.BadZipFile, zlib.error)
"""What a damaged archive raises; an unknown version or an encrypted entry is a RuntimeError."""


class _Header(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    task: str
    task_version: str = ""
    model: str
    headline: str = ""


class _Sample(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str
    epoch: int = 1
    messages: list[Message]
    scores: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    target: Any = None
    error: dict[str, Any] | None = None
    limit: dict[str, Any] | None = None


def samples(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The samples of a log, each with the header of the log."""
    if beginning(path).startswith(b"PK"):
        yield from _archived(path)
        return
    log = load_json(path)
    if not isinstance(log, dict) or "eval" not in log:
        raise InputError(f"{path}: no Inspect log: it has no 'eval'")
    header = _header(path, log)
    samples = log.get("samples") or []
    if not isinstance(samples, list):
        raise InputError(f"{path}: no Inspect log: its 'samples' are no list")
    for number, sample in enumerate(samples, start=1):
        yield DecodedRow(f"sample {number}", (header, sample))


def convert(value: tuple[_Header, Any], source: ImportSource) -> Trajectory:
    """One sample as an episode; ValueError if it is none."""
    header, raw = value
    fields = present(raw)
    attachments = fields.get("attachments") or {}
    if not isinstance(attachments, dict):
        raise ValueError("its attachments are no object")
    sample = _Sample.model_validate(_attached(fields, attachments) if attachments else fields)
    conversation = converse(sample.messages)
    grade = _grade(sample, source.options.reward, header.headline)
    reward = _number(grade)
    policy = source.options.policy or header.model
    extras = {
        **sample.metadata,
        "scores": {name: score.get("value") for name, score in sample.scores.items()} or None,
        "target": sample.target,
        **conversation.extras,
        "trial": str(sample.epoch),
        "error": sample.error.get("message") if sample.error else None,
        "limit": sample.limit.get("type") if sample.limit else None,
        "reward": "missing" if reward is None else None,
    }
    return Trajectory(
        id=source.episode_id(policy, sample.id, str(sample.epoch)),
        env=source.options.env or header.task,
        env_version=header.task_version,
        task_id=sample.id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(conversation.steps, reward),
        final_observation=conversation.final_observation,
        terminated=sample.error is None and sample.limit is None,
        truncated=sample.limit is not None,
        success={"C": True, "I": False, "True": True, "False": False}.get(str(grade)),
        score=_number(_grade(sample, source.options.score, "")) if source.options.score else None,
        meta=as_meta(extras),
    )


def _grade(sample: _Sample, requested: str, headline: str) -> Any:
    """The value of the scorer that counts; None where the sample was never scored."""
    if not sample.scores:
        return None
    name, _, key = (requested, "", "") if requested in sample.scores else requested.partition(".")
    if not name:
        name = headline if headline in sample.scores else next(iter(sample.scores))
    if name not in sample.scores:
        raise ValueError(f"it has no scorer '{name}'{suggest(name, list(sample.scores))}")
    value = sample.scores[name].get("value")
    if isinstance(value, dict) and not key:
        raise ValueError(f"scorer '{name}' gives several values: name one, as {name}.{next(iter(value), 'key')}")
    return pick(value, key) if key else value


def _number(grade: Any) -> float | None:
    if grade is None or (isinstance(grade, float) and math.isnan(grade)):  # nan: Inspect's mark of an unscored sample
        return None
    if isinstance(grade, bool | int | float) and math.isfinite(grade):
        return float(grade)
    if isinstance(grade, str) and grade in _GRADES:
        return _GRADES[grade]
    raise ValueError(f"its score is {str(grade)[:80]!r}, which is no number")


def _header(path: Path, log: Any) -> _Header:
    try:
        headline = log["results"]["headline"]["scorer"]
    except (LookupError, TypeError):  # an unfinished log, or one without metrics
        headline = ""
    try:
        return _Header.model_validate({**log["eval"], "headline": headline or ""})
    except (LookupError, TypeError, ValidationError):
        raise InputError(f"{path}: no Inspect log: its 'eval' does not name a task and a model") from None


def _archived(path: Path) -> Iterator[DecodedRow | BadRow]:
    try:
        archive = zipfile.ZipFile(path)
    except _UNREADABLE as error:
        raise InputError(f"{path}: the archive is cut off or corrupt: {error}") from None
    with archive:
        entries = {info.filename: info for info in archive.infolist()}
        # The header is written last: a log whose run was killed has only the journal's beginning.
        start = entries.get("header.json") or entries.get("_journal/start.json")
        if start is None:
            raise InputError(f"{path}: no Inspect log: the archive has no header.json")
        try:
            header = _header(path, decode(_content(archive, path, start)))
        except _UNREADABLE as error:
            raise InputError(f"{path}: {start.filename}: {error}") from None
        left = most_decompressed(path)
        for name, info in entries.items():
            if not name.startswith("samples/"):
                continue
            try:
                content = _content(archive, path, info)
                left -= len(content)
                row: DecodedRow | BadRow = DecodedRow(name, (header, decode(content)))
            except _UNREADABLE as error:
                row = BadRow(name, str(error))
            if left < 0:
                raise too_large(path)
            yield row


def _content(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo) -> bytes:
    """One entry, decompressed; never more than it claims to be."""
    if info.compress_type not in _METHODS:
        raise ValueError(f"compressed by method {info.compress_type}, which Inspect does not use")
    if info.file_size > MAX_ROW:
        raise ValueError(f"a sample of over {MAX_ROW >> 20} MiB")
    if info.compress_type != _ZSTD:
        with archive.open(info) as entry:
            return entry.read(info.file_size + 1)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)  # here stand the lengths of name and extra field, then these, then the data
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
        packed = file.read(min(info.compress_size, path.stat().st_size))
    data: bytes = pa.decompress(packed, info.file_size, "zstd", asbytes=True)
    if zlib.crc32(data) != info.CRC:
        raise ValueError("its checksum is wrong")
    return data


def _attached(value: Any, attachments: dict[str, str]) -> Any:
    """`value` with references to attachments, which is how Inspect stores long texts, replaced by what they name."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, dict):
        return {key: _attached(item, attachments) for key, item in value.items()}
    return [_attached(item, attachments) for item in value] if isinstance(value, list) else value
