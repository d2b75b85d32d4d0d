"""A recipe: a YAML file of settings; and the YAML that a flag may hold.

Depth, width and size are bounded before anything is built: a few hundred bytes of YAML can name a value without end.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from worldline import files
from worldline.config import Config, names_of, refuse_absent, suggest
from worldline.types import InputError

LARGEST_RECIPE = 1 << 18
"""Bytes. A recipe is a page or two; this is a hundred."""
DEEPEST, WIDEST = 32, 10_000
"""How deep a value from YAML may be nested, and how many values it may hold at one depth, aliases written out."""
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What PyYAML raises on bad text: its own errors, and whatever its constructors of numbers and dates let through."""
_BROKEN = re.compile("[\0\ud800-\udfff]")
"""Characters that no file name can hold and no file of ours can store."""


def read_recipe(path: Path, model: type[Config]) -> dict[str, Any]:
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder: name a recipe in it")
        if not path.is_file():
            raise InputError(f"{path}: no such recipe")
        with path.open("rb") as file:
            content = file.read(LARGEST_RECIPE + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_RECIPE:
        raise InputError(f"{path}: is larger than {LARGEST_RECIPE >> 10} KiB: that is no recipe")
    try:
        values = read_yaml(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {files.not_utf8(error)}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: a recipe is a mapping of settings, this is {type(values).__name__}")
    settings = {name.split(".")[0] for name in names_of(model)}
    for key in values:
        refuse_absent(model, str(key))
        if key not in settings:
            raise InputError(f"{path}: unknown setting '{key}'{suggest(str(key), sorted(settings))}")
    return values


def read_yaml(text: str, where: str) -> Any:
    try:
        _refuse_deep(text)
        value = yaml.safe_load(text)
    except _YAML_ERRORS as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    refuse_unusable(value, where)
    return value


def _refuse_deep(text: str) -> None:
    """ValueError for a text nested too deeply, before it is loaded: a loader's time grows with the square of depth."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"values are nested more than {DEEPEST} deep")


def refuse_unusable(value: Any, where: str) -> None:
    """Refuse what no setting can be: broken characters, numbers without end, values nested or aliased without end."""
    level = [value]
    for _ in range(DEEPEST):
        for item in level:
            if isinstance(item, str) and _BROKEN.search(item):
                raise InputError(f"{where}: holds a NUL or a character that is not Unicode: write it without")
            if isinstance(item, int) and item.bit_length() > 64:
                raise InputError(f"{where}: holds an integer of more than 64 bits")
        level = list(islice((inner for outer in level for inner in _items(outer)), WIDEST + 1))
        if not level:
            return
        if len(level) > WIDEST:
            break
    raise InputError(f"{where}: holds more than {WIDEST:,} values, or more than {DEEPEST} within each other")


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
