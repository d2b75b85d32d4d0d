"""The reference of the Python API, made from docstrings and settings when `make docs` builds the site.

A hook of MkDocs: it fills the page api.md. `python docs/api_reference.py` prints the same as Markdown.
"""

import importlib
import inspect
import re
from typing import Any

from pydantic.fields import FieldInfo

import worldline
from worldline import api

PLACE = "<!-- reference -->"
SETTINGS = {
    "collect": "worldline.collect:CollectConfig",
    "compare": "worldline.comparison:CompareConfig",
    "evaluate": "worldline.evaluate:EvaluateConfig",
    "fit": "worldline.adwm.fit:FitConfig",
    "sft": "worldline.sft:SftConfig",
    "train": "worldline.paw.recipe:TrainConfig",
}
RESULTS = (
    "worldline.collect:Collection",
    "worldline.comparison:LogComparison",
    "worldline.evaluate:Evaluation",
    "worldline.evaluate:Estimate",
    "worldline.adwm.fit:Fitted",
    "worldline.sft:Cloned",
    "worldline.paw.train:Trained",
    "worldline.report:Report",
)
MODULES = ("worldline.types", "worldline.store", "worldline.logs", "worldline.policies")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs asks for every page; one of them has the place."""
    return markdown.replace(PLACE, reference()) if PLACE in markdown else markdown


def reference() -> str:
    """All of it as Markdown."""
    parts = ["## The verbs", ""]
    for name in worldline.__all__:
        parts += _verb(name) if hasattr(api, name) else [f"### worldline.{name}", "", "The version, as a string.", ""]
    parts += ["## What they return", ""]
    for path in RESULTS:
        parts += _class(_named(path), path.replace(":", "."))
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}", "", _text(module), ""]
        for public in module.__all__:
            parts += _class(getattr(module, public), f"{name}.{public}")
    return "\n".join(parts)


def _verb(name: str) -> list[str]:
    verb = getattr(api, name)
    parts = [f"### worldline.{name}", "", f"```text\n{name}{_signature(verb)}\n```", "", _text(verb), ""]
    if name in SETTINGS:
        given = set(inspect.signature(verb).parameters)
        fields = {key: field for key, field in _named(SETTINGS[name]).model_fields.items() if key not in given}
        parts += ["| setting | type | default | what |", "|---|---|---|---|"]
        parts += [_row(key, field) for key, field in fields.items()] + [""]
    return parts


def _row(key: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else "" if field.default_factory else repr(field.default)
    kind = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
    kind = re.sub(r"\b(typing|pathlib|collections\.abc)\.", "", kind)
    kind = re.sub(r"\bworldline\.[\w.]*\.", "", kind)
    cells = (f"`{key}`", f"`{kind}`", f"`{default}`" if default else "", field.description or _text(field.annotation))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _class(thing: Any, path: str) -> list[str]:
    """A class with its public methods and properties, a function, or a constant."""
    if not (inspect.isclass(thing) or callable(thing)):
        return [f"### {path}", "", f"`{str(thing)[:120]}`", ""]
    called = "" if inspect.isclass(thing) else f"```text\n{path.rpartition('.')[2]}{_signature(thing)}\n```\n\n"
    parts = [f"### {path}", "", f"{called}{_text(thing)}", ""]
    if not inspect.isclass(thing):
        return parts
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        shown = name if isinstance(member, property) else f"{name}{_signature(function)}"
        parts.append(f"- `{shown}`: {' '.join(_text(function).split())}")
    return [*parts, ""]


def _signature(function: Any) -> str:
    try:
        shown = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"
    shown = re.sub(r"\b(typing|pathlib|collections\.abc)\.", "", shown)
    shown = re.sub(r"\bworldline\.[\w.]*\.(?=\w)", "", shown).replace("'", "")
    return re.sub(r"\*<class (\w+)>", r"\1", shown)


def _text(thing: Any) -> str:
    """The docstring of its own, not one that Python or pydantic made."""
    text = inspect.getdoc(thing) or ""
    return "" if text.startswith(("Usage docs:", "!!! abstract")) or text == inspect.getdoc(str) else text


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    print(reference())
