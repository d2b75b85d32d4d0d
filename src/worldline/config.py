"""Settings: one frozen pydantic model per command. The same validation holds for a recipe, for flags and in Python.

A wrong key or value gives the same single line wherever it was written. `command_line` fills a model from flags.
"""

import difflib
import functools
import reprlib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from worldline.types import InputError


class Config(BaseModel):
    """Base of every settings model: frozen, unknown keys are errors. The docstring is the help text."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    examples: ClassVar[tuple[str, ...]] = ()
    heading: ClassVar[str] = ""
    """Under which heading a verb's help lists these settings, where the verb inherits them."""
    absent: ClassVar[dict[str, str]] = {}
    """A setting that others have -> why it is not among these, for the line that refuses it."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_empty_path(cls, value: Any, info: ValidationInfo) -> Any:
        """An empty path would be the working folder: `--out "" --overwrite` would clear it."""
        texts = value if isinstance(value, list | tuple) else (value,)
        if "" in texts and _holds_path(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("is empty: name a path")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _list_of_one(cls, value: Any, info: ValidationInfo) -> Any:
        """`a` is a list too, where a setting takes several; and so is `a,b`, where they are some words."""
        kind = _not_none(cls.model_fields[str(info.field_name)].annotation)
        items = get_args(kind)
        if origin_of(kind) not in (list, tuple) or not isinstance(value, str | Path | int | float):
            return value
        if isinstance(value, str) and any(get_origin(item) is Literal for item in items):
            return [word.strip() for word in value.split(",")]
        several = origin_of(kind) is list or Ellipsis in items
        return [value] if several and not isinstance(value, bool) else value

    @field_validator("*", mode="after")
    @classmethod
    def _within_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("does not fit in 64 bits")
        return value


def _holds_path(annotation: Any) -> bool:
    return annotation is Path or any(map(_holds_path, get_args(annotation)))


def positional(default: Any = ..., *, help: str, **constraints: Any) -> Any:  # noqa: A002 - reads as argparse does
    """A field given without a flag, in the order of declaration; a tuple takes all that follow."""
    return Field(default, description=help, json_schema_extra={"positional": True}, **constraints)


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
            refuse_absent(model, name, where)
            _refuse_dotted(model, path, where)
            raise InputError(f"{where}unknown setting '{name}'{suggest(name, names_of(model))}") from None
        if first["type"] == "missing":
            flag = next((flag for flag in flags_of(model) if flag.name == name), None)
            how = name.upper() if flag and flag.positional else f"--{prefix}{dashed(name)}"
            raise InputError(f"{where}missing {how}{f': {flag.help}' if flag and flag.help else ''}") from None
        more = f" (and {len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
        got = f", got {shortened(first['input'])}" if not isinstance(first["input"], dict) else ""
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}--{prefix}{dashed(name)}: {message}{got}{more}") from None


def _refuse_dotted(model: type[BaseModel], path: Sequence[str], where: str) -> None:
    """InputError for `outer.inner` as one key, which is how flags are written, not mappings."""
    outer, *inner = path[0].split(".")
    if len(path) == 1 and inner and outer in model.model_fields:
        nested = functools.reduce(lambda value, key: f"{{'{key}': {value}}}", reversed(inner), "...")
        raise InputError(f"{where}unknown setting '{path[0]}': write {outer}={nested}") from None


def suggest(name: str, names: Sequence[str]) -> str:
    """' - did you mean 'x'?' for the nearest of `names`, else the list of what there is."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f": did you mean '{close[0]}'?"
    return f": choose from {', '.join(sorted(names))}" if names else ""


def listed(name: str, names: Sequence[str], most: int = 12) -> str:
    """What there is in the place of `name`: all of it, or the nearest where that is much."""
    if len(names) <= most:
        return ", ".join(sorted(names))
    nearest = sorted(names, key=lambda one: (-difflib.SequenceMatcher(None, name, one).ratio(), one))
    return f"{', '.join(nearest[:most])} and {len(names) - most} more"


@dataclass(frozen=True)
class Flag:
    """A setting as it is given on a command line, `outer.inner` where models are nested."""

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
        return origin_of(self.annotation) in (list, tuple)

    @property
    def free(self) -> bool:
        return origin_of(self.annotation) is dict

    @property
    def switch(self) -> bool:
        return self.annotation is bool


def flags_of(model: type[BaseModel], prefix: str = "") -> Iterator[Flag]:
    """The settings of a model and of the models in it, in the order of declaration."""
    for name, field in model.model_fields.items():
        annotation = _not_none(field.annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from flags_of(annotation, f"{prefix}{name}.")
        else:
            yield Flag(prefix + name, annotation, field)


def names_of(model: type[BaseModel]) -> list[str]:
    """The dotted names of a model's settings."""
    return [flag.name for flag in flags_of(model)]


def _not_none(annotation: Any) -> Any:
    """The kind of a setting: `Path` of `Path | None`, and of `Folder | None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None)]
        if len(rest) > 1:
            return annotation
        return get_args(rest[0])[0] if get_origin(rest[0]) is Annotated else rest[0]
    return annotation


def origin_of(annotation: Any) -> Any:
    """`tuple` of `tuple[str, ...]`, and the annotation itself where it has no arguments."""
    return get_origin(annotation) or annotation


def shortened(value: Any) -> str:
    """`value` as Python writes it, cut to a readable length."""
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = 120
    return brief.repr(value)


def dashed(name: str) -> str:
    """A setting's name as its flag spells it."""
    return name.replace("_", "-")


def refuse_absent(model: type[Config], name: str, where: str = "") -> None:
    """InputError that says why the model does without a setting that others have."""
    if name in model.absent:
        raise InputError(f"{where}--{dashed(name)}: {model.absent[name]}")
