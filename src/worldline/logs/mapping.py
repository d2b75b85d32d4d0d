"""`--map FIELD=PATH`: rows of any other format, read by where the user says their fields stand.

Fields of the episode (`reward`, `task_id`, `policy`, ...) may be mapped on top of any format of rows. A field of the
steps (`action`, `observation`, ...: the path has `[]`) or `messages` makes the mapping the format itself. Fields of the
row that no path names, and that are no lists or objects, are kept in `meta`; `meta.NAME=PATH` keeps another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from worldline.config import suggest
from worldline.logs import chat, paths
from worldline.logs.fields import PER_STEP, EpisodeFields, assemble
from worldline.logs.paths import RowPath
from worldline.logs.rows import BadRow, DecodedRow
from worldline.logs.source import ImportSource, present
from worldline.types import InputError, Trajectory

FIELDS = tuple(EpisodeFields.model_fields)
MESSAGES = "messages"
STEPS = "steps"
"""The list of an episode's steps, where it goes by another name."""
_META = "meta."
_MAPPABLE = (*FIELDS, MESSAGES, STEPS)

Mappings = Mapping[str, RowPath]


def parse(entries: Sequence[str]) -> dict[str, RowPath]:
    """`FIELD=PATH` entries by field."""
    mappings: dict[str, RowPath] = {}
    for entry in entries:
        field, equals, path = entry.partition("=")
        if not equals or not path:
            raise InputError(f"--map {entry}: write FIELD=PATH, such as reward=info.score")
        if field not in _MAPPABLE and not (field.startswith(_META) and field != _META):
            raise InputError(f"--map {entry}: unknown field '{field}'{suggest(field, _MAPPABLE)}")
        if field in mappings:
            raise InputError(f"--map {entry}: '{field}' is mapped twice: give it once")
        mappings[field] = paths.parse(path, f"--map {entry}")
    if STEPS in mappings and (own := next((field for field in mappings if field in (*PER_STEP, MESSAGES)), "")):
        raise InputError(f"--map {own}: the mapped steps have their own: map one or the other")
    return mappings


def is_format(mappings: Mappings) -> bool:
    """Whether the mapping says where the steps are, so that nothing else need know the rows."""
    return any(field in PER_STEP or field == MESSAGES for field in mappings)


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One row as an episode, by the mapping alone; ValueError if it is none."""
    mappings = source.mappings
    values = mapped(row, mappings)
    if "action" in mappings and (reason := mappings["action"].lacks(row)):
        raise ValueError(reason)
    used = {path.parts[0] for path in mappings.values()}
    rest = {
        name: value
        for name, value in present(row).items()
        if name not in used and name not in values and not isinstance(value, list | dict)
    }
    if MESSAGES in values:
        if idle := [field for field in values if field in PER_STEP]:
            raise InputError(f"--map {idle[0]}: messages have their own steps: map one or the other")
        return chat.convert({**rest, **values}, source)
    fields = {name: value for name, value in rest.items() if name in FIELDS and name not in PER_STEP}
    extras = {name: value for name, value in rest.items() if name not in FIELDS}
    return assemble(EpisodeFields.model_validate({**extras, **fields, **values}), source, "imported")


def checked(rows: Iterable[DecodedRow | BadRow], source: ImportSource) -> Iterator[DecodedRow | BadRow]:
    """The rows as they are; InputError after the last if a path names a key that no item of any row has.

    A key that some items lack says nothing there; one that all lack is misspelt.
    """
    unseen = {field: path for field, path in source.mappings.items() if path.many}
    reasons: dict[str, str] = {}
    for row in rows:
        yield row
        if isinstance(row, BadRow):
            continue
        value = row.value[1] if isinstance(row.value, tuple) else row.value
        for field, path in list(unseen.items()):
            try:
                if reason := path.lacks(value):
                    reasons.setdefault(field, reason)
                elif path.values(value):
                    del unseen[field]
            except ValueError:
                continue  # a bad row
    for field in (field for field in unseen if field in reasons):
        raise InputError(f"{source.path}: --map {field}: in every row {reasons[field]}: mend the path or leave it out")


def mapped(row: Any, mappings: Mappings) -> dict[str, Any]:
    """The values that the paths name, by field; a null says nothing."""
    picked = {field.removeprefix(_META): path.pick(row) for field, path in mappings.items()}
    return {field: value for field, value in picked.items() if value is not None}


def override(row: Any, mappings: Mappings) -> Any:
    """A row of a format that `import` reads, with the mapped fields put in."""
    if not isinstance(row, dict):
        raise InputError("--map: this format has its fields in place: leave the mapping out")
    moved = mappings[STEPS].parts[0] if STEPS in mappings else ""
    return {**{name: value for name, value in row.items() if name != moved}, **mapped(row, mappings)}
