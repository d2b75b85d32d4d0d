"""Settings: one frozen pydantic model per command, filled from a YAML recipe and from dotted flags.

Recipe and flags go through the same validation, so a wrong key or value gives the same single line wherever it
was written. Flags win over the recipe. There is no environment-variable or global layer.
"""

import difflib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from worldline.types import InputError

RECIPE_SUFFIXES = (".yaml", ".yml")


class Config(BaseModel):
    """Base of every settings model: frozen, unknown keys are errors. The docstring is the help text."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    examples: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[dict[str, str]] = {}
    """Old name of a setting -> its present name, for the line that refuses the old one."""


def positional(default: Any = ..., *, help: str) -> Any:  # noqa: A002 - reads as argparse does
    """A field given without a flag, in the order of declaration; a tuple takes all that follow."""
    return Field(default, description=help, json_schema_extra={"positional": True})


def option(default: Any = ..., *, help: str, **constraints: Any) -> Any:  # noqa: A002 - reads as argparse does
    """A field given as a flag, with its help text."""
    return Field(default, description=help, **constraints)


def _no_file(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise ValueError("is a file: name a folder")
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
            _put(given, slot.name, [*_at(given, slot.name, []), word] if slot.many else word)
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
        got = f", got {first['input']!r}" if not isinstance(first["input"], dict) else ""
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}--{prefix}{_dashed(name)}: {message}{got}{more}") from None


def suggest(name: str, known: Sequence[str]) -> str:
    """' - did you mean 'x'?' for the nearest known name, else the list of what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f": did you mean '{close[0]}'?"
    return f": known are {', '.join(sorted(known))}" if known else ""


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
        known = [f"--{_dashed(known)}" for known in flags]
        raise InputError(f"unknown flag '--{_dashed(name)}'{suggest('--' + _dashed(name), known)}")
    if free is not None or flag is None:
        taken = value if equals else _next(word, words)
        _put(given, name, yaml.safe_load(taken))
    elif flag.switch:
        takes_word = not equals and words and words[0].lower() in ("true", "false")
        text = value if equals else words.pop(0) if takes_word else "true"
        _put(given, flag.name, (text.lower() == "true") != negated if text.lower() in ("true", "false") else text)
    elif flag.many:
        taken_many = [value] if equals else [_next(word, words)]
        while not equals and words and not words[0].startswith("--"):
            taken_many.append(words.pop(0))
        _put(given, flag.name, [*_at(given, flag.name, []), *taken_many])
    else:
        _put(given, flag.name, value if equals else _next(word, words))


def _next(word: str, words: list[str]) -> str:
    if not words or words[0].startswith("--"):
        raise InputError(f"{word} needs a value")
    return words.pop(0)


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    values[last] = value


def _at(values: dict[str, Any], dotted: str, default: Any) -> Any:
    for part in dotted.split("."):
        if part not in values:
            return default
        values = values[part]
    return values


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
    if not path.is_file():
        raise InputError(f"{path}: no such recipe")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: a recipe is a mapping of settings, this is {type(values).__name__}")
    known = {name.split(".")[0] for name in _names(model)}
    for key in values:
        _refuse_old_name(model, str(key))
        if key not in known:
            raise InputError(f"{path}: unknown setting '{key}'{suggest(str(key), sorted(known))}")
    return values


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
