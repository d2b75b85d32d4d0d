"""Environments by name: the embedded ones, the real ones, and yours.

`load("household")`, `load("webshop", data=path)`, `load("package.module:attr")` for your own code,
`load("gym:ID")` for a Gymnasium text environment. A world's module is imported only when it is asked for.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline.config import suggest, validate
from worldline.types import InputError, World


@dataclass(frozen=True, slots=True)
class Source:
    """Where a world comes from: `world(config=..., data=...)`, with its settings validated by `config`."""

    world: str
    config: str
    data: str = ""
    """What --data PATH holds; empty where the world takes none."""
    needs_data: bool = False


WORLDS: dict[str, Source] = {
    "household": Source(
        "worldline.envs.household.world:HouseholdWorld", "worldline.envs.household.world:HouseholdConfig"
    ),
    "alfworld": Source(
        "worldline.envs.alfworld:AlfworldWorld",
        "worldline.envs.alfworld:AlfworldConfig",
        data="a folder of ALFWorld games (game.tw-pddl folders, or games_*.jsonl.xz with alfred.pddl and alfred.twl2)",
        needs_data=True,
    ),
    "shop": Source("worldline.envs.webshop.world:ShopWorld", "worldline.envs.webshop.world:ShopConfig"),
    "webshop": Source(
        "worldline.envs.webshop.world:WebShopWorld",
        "worldline.envs.webshop.world:WebShopConfig",
        data="a folder with WebShop's items_shuffle and items_ins files",
        needs_data=True,
    ),
    "searchqa": Source(
        "worldline.envs.searchqa.world:SearchQAWorld",
        "worldline.envs.searchqa.world:SearchQAConfig",
        data="a question file (.jsonl or .jsonl.gz), or a folder of question and passage files",
    ),
    "scienceworld": Source(
        "worldline.envs.scienceworld:ScienceWorld",
        "worldline.envs.scienceworld:ScienceWorldConfig",
    ),
}


def load(name: str, data: Path | None = None, options: Mapping[str, Any] | None = None) -> World:
    """The world called `name`; `data` is its data on disk, `options` are its own settings."""
    if name.startswith("gym:"):
        from worldline.envs.gym import GymConfig, GymWorld

        _refuse_data(name, data)
        return GymWorld(name.removeprefix("gym:"), validate(GymConfig, dict(options or {}), source=name))
    if ":" in name:
        from worldline.envs.custom import load_custom

        return load_custom(name, data, dict(options or {}))
    if name not in WORLDS:
        hint = suggest(name, list(WORLDS))
        raise InputError(f"unknown environment '{name}'{hint} (or module:attr for your own, gym:ID for Gymnasium's)")
    source = WORLDS[name]
    config = validate(_attribute(source.config), dict(options or {}), source=name)
    if not source.data:
        _refuse_data(name, data)
        return _made(source, config=config)
    if data is None and source.needs_data:
        raise InputError(f"{name} needs --data PATH: {source.data}")
    if data is not None and not data.exists():
        raise InputError(f"--data {data}: no such file or folder; {name} takes {source.data}")
    return _made(source, config=config, data=data)


def _made(source: Source, **arguments: Any) -> World:
    world: World = _attribute(source.world)(**arguments)
    return world


def _refuse_data(name: str, data: Path | None) -> None:
    if data is not None:
        raise InputError(f"{name} takes no --data: it is made without (got {data})")


def _attribute(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
