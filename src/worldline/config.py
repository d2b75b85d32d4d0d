"""Settings: one frozen pydantic model per command, filled from a YAML recipe and from dotted flags.

Recipe and flags go through the same validation, so a wrong key or value gives the same single line wherever it
was written. Flags win over the recipe. There is no environment-variable or global layer.
"""

import difflib
import re
import reprlib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from worldline.types import InputError

RECIPE_SUFFIXES = (".yaml", ".yml")
LARGEST_RECIPE = 1 << 18
"""Bytes. A recipe is a page or two; this is a hundred."""
DEEPEST, WIDEST = 32, 10_000
"""How deep a value from YAML may be nested, and how many values it may hold at one depth, aliases written out."""
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What PyYAML raises on bad text: its own errors, and whatever its constructors of numbers and dates let through."""
_BROKEN = re.compile("[\0\ud800-\udfff]")
"""Characters that no file name can hold and no file of ours can store."""


class Config(BaseModel):
    """Base of every settings model: frozen, unknown keys are errors. The docstring is the help text."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    examples: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[dict[str, str]] = {}
    """Old name of a setting -> its present name, for the line that refuses the old one."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_empty_path(cls, value: Any, info: ValidationInfo) -> Any:
        """An empty path would be the working folder: `--out "" --overwrite` would clear it."""
        texts = value if isinstance(value, list | tuple) else (value,)
        if "" in texts and _holds_path(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("is empty: name a path")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _within_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("does not fit in 64 bits")
        return value


def _holds_path(annotation: Any) -> bool:
    return annotation is Path or any(map(_holds_path, get_args(annotation)))


def positional(default: Any = ..., *, help: str) -> Any:  # noqa: A002 - reads as argparse does
    """A field given without a flag, in the order of declaration; a tuple takes all that follow."""
    return Field(default, description=help, json_schema_extra={"positional": True})


def option(default: Any = ..., *, help: str, **constraints: Any) -> Any:  # noqa: A002 - reads as argparse does
    """A field given as a flag, with its help text."""
    return Field(default, description=help, **constraints)


def _no_file(path: Path) -> Path:
    try:
        if path.exists() and not path.is_dir():
            raise ValueError("is a file: name a folder")
    except OSError as error:
        raise ValueError(f"cannot be a folder: {error.strerror}") from None
    return path


Folder = Annotated[Path, AfterValidator(_no_file)]
"""A folder that will be written to, and need not be there yet."""
C = TypeVar("C", bound=Config)


def read(model: type[C], argv: Sequence[str]) -> C:
    """The settings that a command line (and the recipe it names, if any) describes."""
    flags = {flag.name: flag for flag in _flags(model)}
    slots = [flag for flag in flags.values() if flag.positional]
    values: dict[str, Any] = {}
    given: dict[str, Any] = {}
    words = list(argv)
    for word in words:
        _check(word, f"argument {_short(word)}")
    if words and words[0].endswith(RECIPE_SUFFIXES):
        values = _recipe(Path(words.pop(0)), model)
        slots = [slot for slot in slots if slot.name not in values]
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            _refuse_old_name(model, word[2:].partition("=")[0].replace("-", "_"))
            _take_flag(word, words, flags, given)
        elif slots:
            slot = slots[0] if slots[0].many else slots.pop(0)
            if slot.many:
                _add(given, slot.name, [word])
            else:
                _put(given, slot.name, word)
        else:
            raise InputError(f"unexpected argument '{word}': give settings as --flag value (see --help)")
    return validate(model, _merge(values, given))


def validate(model: type[C], values: dict[str, Any], source: str = "", prefix: str = "") -> C:
    """`values` as a `model`, or one line that names the setting that is wrong; as a flag it begins with `prefix`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "constrained-"))]
        name = ".".join(path)
        where = f"{source}: " if source else ""
        if first["type"] == "extra_forbidden":
            raise InputError(f"{where}unknown setting '{name}'{suggest(name, _names(model))}") from None
        if first["type"] == "missing":
            flag = next((flag for flag in _flags(model) if flag.name == name), None)
            how = name.upper() if flag and flag.positional else f"--{prefix}{_dashed(name)}"
            raise InputError(f"{where}missing {how}{f': {flag.help}' if flag and flag.help else ''}") from None
        more = f" (and {len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
        got = f", got {_short(first['input'])}" if not isinstance(first["input"], dict) else ""
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}--{prefix}{_dashed(name)}: {message}{got}{more}") from None


def suggest(name: str, names: Sequence[str]) -> str:
    """' - did you mean 'x'?' for the nearest of `names`, else the list of what there is."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f": did you mean '{close[0]}'?"
    return f": choose from {', '.join(sorted(names))}" if names else ""


def usage(model: type[Config], command: str) -> str:
    """The help text of a command: what must be given comes first."""
    flags = sorted(_flags(model), key=lambda flag: (not flag.positional, not flag.field.is_required()))
    words = " ".join(f.name.upper() + (" ..." if f.many else "") for f in flags if f.positional)
    lines = [f"usage: {command} {words}{' ' if words else ''}[--flag value ...]", ""]
    lines += [line.strip() for line in (model.__doc__ or "").strip().splitlines()] + [""]
    width = max((len(_shown(flag)) for flag in flags), default=0) + 2
    lines += [f"  {_shown(flag):<{min(width, 34)}} {_explained(flag)}" for flag in flags]
    if model.examples:
        lines += ["", "examples:", *(f"  {example}" for example in model.examples)]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Flag:
    name: str
    annotation: Any
    field: FieldInfo

    @property
    def help(self) -> str:
        return self.field.description or ""

    @property
    def _extra(self) -> dict[str, Any]:
        extra = self.field.json_schema_extra
        return extra if isinstance(extra, dict) else {}

    @property
    def positional(self) -> bool:
        return bool(self._extra.get("positional"))

    @property
    def many(self) -> bool:
        return _origin(self.annotation) in (list, tuple)

    @property
    def free(self) -> bool:
        return _origin(self.annotation) is dict

    @property
    def switch(self) -> bool:
        return self.annotation is bool


def _flags(model: type[BaseModel], prefix: str = "") -> Iterator[_Flag]:
    for name, field in model.model_fields.items():
        annotation = _not_none(field.annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _flags(annotation, f"{prefix}{name}.")
        else:
            yield _Flag(prefix + name, annotation, field)


def _names(model: type[BaseModel]) -> list[str]:
    return [flag.name for flag in _flags(model)]


def _not_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _origin(annotation: Any) -> Any:
    return get_origin(annotation) or annotation


def _take_flag(word: str, words: list[str], flags: dict[str, _Flag], given: dict[str, Any]) -> None:
    name, equals, value = word[2:].partition("=")
    name = name.replace("-", "_")
    negated = name.startswith("no_") and name not in flags and flags.get(name[3:]) is not None
    flag = flags.get(name[3:] if negated else name)
    free = next((f for f in flags.values() if f.free and name.startswith(f.name + ".")), None)
    if flag is None and free is None:
        spellings = [f"--{_dashed(name)}" for name in flags]
        raise InputError(f"unknown flag '--{_dashed(name)}'{suggest('--' + _dashed(name), spellings)}")
    if free is not None or flag is None:
        taken = value if equals else _next(word, words)
        _put(given, name, _yaml(taken, f"--{_dashed(name)}"))
    elif flag.switch:
        takes_word = not equals and words and words[0].lower() in ("true", "false")
        text = value if equals else words.pop(0) if takes_word else "true"
        _put(given, flag.name, (text.lower() == "true") != negated if text.lower() in ("true", "false") else text)
    elif flag.many:
        taken_many = [value] if equals else [_next(word, words)]
        while not equals and words and not words[0].startswith("--"):
            taken_many.append(words.pop(0))
        _add(given, flag.name, taken_many)
    else:
        _put(given, flag.name, value if equals else _next(word, words))


def _next(word: str, words: list[str]) -> str:
    if not words or words[0].startswith("--"):
        raise InputError(f"{word} needs a value")
    return words.pop(0)


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    """Enter a value at `a.b.c`; a place that is taken is not overwritten in silence."""
    *parents, last = dotted.split(".")
    for depth, parent in enumerate(parents, start=1):
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            outer = _dashed(".".join(parents[:depth]))
            raise InputError(f"--{_dashed(dotted)}: --{outer} is given too, as a value of its own: give one of them")
    if last in values:
        raise InputError(f"--{_dashed(dotted)}: is given twice: give it once")
    values[last] = value


def _add(values: dict[str, Any], dotted: str, words: list[str]) -> None:
    """Enter the words of a flag that takes many, and may be repeated."""
    *parents, last = dotted.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    values.setdefault(last, []).extend(words)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _refuse_old_name(model: type[Config], name: str) -> None:
    if name in model.renamed:
        raise InputError(f"--{_dashed(name)} is now called --{_dashed(model.renamed[name])}")


def _recipe(path: Path, model: type[Config]) -> dict[str, Any]:
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
        values = _yaml(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not YAML: not UTF-8: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: a recipe is a mapping of settings, this is {type(values).__name__}")
    settings = {name.split(".")[0] for name in _names(model)}
    for key in values:
        _refuse_old_name(model, str(key))
        if key not in settings:
            raise InputError(f"{path}: unknown setting '{key}'{suggest(str(key), sorted(settings))}")
    return values


def _yaml(text: str, where: str) -> Any:
    try:
        _refuse_deep(text)
        value = yaml.safe_load(text)
    except _YAML_ERRORS as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    _check(value, where)
    return value


def _refuse_deep(text: str) -> None:
    """ValueError for a text nested too deeply, before it is loaded: a loader's time grows with the square of depth."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"values are nested more than {DEEPEST} deep")


def _check(value: Any, where: str) -> None:
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


def _short(value: Any) -> str:
    """`value` as Python writes it, cut to a readable length."""
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = 120
    return brief.repr(value)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _shown(flag: _Flag) -> str:
    if flag.positional:
        return flag.name.upper()
    if flag.switch:
        return f"--{_dashed(flag.name)}"
    return f"--{_dashed(flag.name)}{'.KEY' if flag.free else ''} {_type_name(flag.annotation)}"


def _explained(flag: _Flag) -> str:
    default = flag.field.default
    if flag.field.is_required():
        note = "required"
    elif default in (None, "", (), False) or flag.field.default_factory is not None:
        note = ""
    else:
        note = f"default {' '.join(map(str, default)) if isinstance(default, tuple) else default}"
    return f"{flag.help}{f' ({note})' if note and flag.help else note}"


def _type_name(annotation: Any) -> str:
    origin = _origin(annotation)
    if origin is Literal:
        return "|".join(str(choice) for choice in get_args(annotation))
    if origin in (list, tuple):
        return f"{_type_name(get_args(annotation)[0])} ..."
    if origin in (Union, types.UnionType):
        return "|".join(_type_name(arg) for arg in get_args(annotation) if arg is not type(None))
    return {str: "TEXT", int: "N", float: "X", Path: "PATH", dict: "VALUE"}.get(
        origin, getattr(origin, "__name__", "VALUE")
    )
