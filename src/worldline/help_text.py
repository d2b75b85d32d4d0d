"""Help texts: the settings of a verb or an environment, as wide as the terminal, what must be given first."""

import inspect
import shutil
import textwrap
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args

from worldline.config import Config, Flag, dashed, flags_of, origin_of

_WIDEST_FLAG = 26
"""Characters of a flag beside which its explanation still stands."""


def usage(model: type[Config], command: str) -> str:
    """The help text of a command: what must be given comes first, then its own settings, then those it shares."""
    flags = list(flags_of(model))
    words = " ".join(_argument(flag) for flag in flags if flag.positional)
    lines = [f"usage: {command} {words}{' ' if words else ''}[--flag value ...]", ""]
    lines += [line.strip() for line in (model.__doc__ or "").strip().splitlines()]
    for heading, group in _grouped(model, flags).items():
        lines += ["", f"{heading}:", *_listing(group)]
    if model.examples:
        lines += ["", "examples:", *(f"  {example}" for example in model.examples)]
    return "\n".join(lines)


def _argument(flag: Flag) -> str:
    word = flag.name.upper() + (" ..." if flag.many else "")
    return word if flag.field.is_required() else f"[{word}]"


def options_help(model: type[Config]) -> str:
    """The settings of an environment as flags of a verb."""
    return "\n".join(_listing([Flag(f"options.{f.name}", f.annotation, f.field) for f in flags_of(model)]))


def _grouped(model: type[Config], flags: Sequence[Flag]) -> dict[str, list[Flag]]:
    """Flags by heading: required, own, then by the class or the prefix they come from."""
    groups: dict[str, list[Flag]] = {"required": [], "settings": []}
    for flag in flags:
        field = flag.name.split(".")[0]
        home = next((cls for cls in model.__mro__ if field in inspect.get_annotations(cls)), model)
        prefix = flag.name.rpartition(".")[0]
        heading = prefix if prefix else "settings" if home is model else getattr(home, "heading", "") or "settings"
        if flag.field.is_required():
            heading = "required"
        groups.setdefault(heading, []).append(flag)
    groups["required"].sort(key=lambda flag: not flag.positional)
    return {heading: group for heading, group in groups.items() if group}


def _listing(flags: Sequence[Flag]) -> list[str]:
    """A flag a line, its explanation beside it or, where it is long, under it; as wide as the terminal, 80 at least."""
    room = min(max(shutil.get_terminal_size().columns, 80), 120)
    indent = min(max((len(_shown(flag)) for flag in flags), default=0), _WIDEST_FLAG) + 4
    lines = []
    for flag in flags:
        words = textwrap.wrap(_explained(flag), room - indent, break_long_words=False)
        first = f"  {_shown(flag)}".ljust(indent)
        if len(_shown(flag)) + 4 > indent or not words:
            lines.append(first.rstrip())
        else:
            lines.append(first + words.pop(0))
        lines += [" " * indent + line for line in words]
    return lines


def _shown(flag: Flag) -> str:
    if flag.positional:
        return flag.name.upper()
    if flag.switch and flag.name.startswith("options."):  # an environment's settings always take a value
        return f"--{dashed(flag.name)} true|false"
    if flag.switch:
        return f"--{'[no-]' if flag.field.default is True else ''}{dashed(flag.name)}"
    return f"--{dashed(flag.name)}{'.KEY' if flag.free else ''} {_type_name(flag.annotation)}"


def _explained(flag: Flag) -> str:
    default = flag.field.default
    if flag.field.is_required():
        note = "required"
    elif default is True:
        note = "default: on"
    elif default in (None, "", (), False) or flag.field.default_factory is not None:
        note = ""
    else:
        note = f"default {' '.join(map(str, default)) if isinstance(default, tuple) else default}"
    return f"{flag.help}{f' ({note})' if note and flag.help else note}"


def _type_name(annotation: Any) -> str:
    kind = origin_of(annotation)
    if kind is Literal:
        return "|".join(str(choice) for choice in get_args(annotation))
    if kind in (list, tuple):
        return f"{_type_name(get_args(annotation)[0])} ..."
    if kind in (Union, types.UnionType):
        return "|".join(_type_name(arg) for arg in get_args(annotation) if arg is not type(None))
    return {str: "TEXT", int: "N", float: "X", Path: "PATH", dict: "VALUE"}.get(
        kind, getattr(kind, "__name__", "VALUE")
    )
