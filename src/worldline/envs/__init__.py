"""Environments by name: the embedded ones, the real ones, and yours.

`load("household")`, `load("webshop", data=path)`, `load("package.module:attr")` for your own code,
`load("gym:ID")` for a Gymnasium text environment, `load("textarena:ID")` for a game of TextArena,
`load("openenv:URL")` for an OpenEnv server, `load("imagined:FOLDER")` for a world model that `worldline fit` made. A
world's module is imported only when that world is loaded.

A name that was read from data goes through `load_builtin`: nothing read from data names code.
"""

import importlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline import files
from worldline.config import suggest, validate
from worldline.help_text import options_help
from worldline.post import public
from worldline.types import InputError, World


@dataclass(frozen=True, slots=True)
class WorldSource:
    """Where a world comes from and what it is made with: its settings, and its data where it takes some."""

    world: str
    config: str
    data: str = ""
    """What --data PATH holds; empty where the world takes none."""
    needs_data: bool = False


WORLDS: dict[str, WorldSource] = {
    "household": WorldSource(
        "worldline.envs.household.world:HouseholdWorld",
        "worldline.envs.household.world:HouseholdConfig",
    ),
    "alfworld": WorldSource(
        "worldline.envs.alfworld:AlfworldWorld",
        "worldline.envs.alfworld:AlfworldConfig",
        data="the folder that alfworld-download fills, or one with games_*.jsonl.xz and alfred.twl2",
        needs_data=True,
    ),
    "shop": WorldSource(
        "worldline.envs.webshop.world:ShopWorld",
        "worldline.envs.webshop.world:ShopConfig",
    ),
    "webshop": WorldSource(
        "worldline.envs.webshop.world:WebShopWorld",
        "worldline.envs.webshop.world:WebShopConfig",
        data="the folder of WebShop's items_shuffle*.json and items_ins*.json files",
        needs_data=True,
    ),
    "searchqa": WorldSource(
        "worldline.envs.searchqa.world:SearchQAWorld",
        "worldline.envs.searchqa.world:SearchQAConfig",
        data="a question file (.jsonl, .jsonl.gz), or a folder of question and passage files",
    ),
    "scienceworld": WorldSource(
        "worldline.envs.scienceworld.world:ScienceWorld",
        "worldline.envs.scienceworld.world:ScienceWorldConfig",
        data="a file of solved episodes (.jsonl, .jsonl.gz) for the expert",
    ),
    "lake": WorldSource(
        "worldline.envs.small.lake:LakeWorld",
        "worldline.envs.small.lake:LakeConfig",
    ),
    "blackjack": WorldSource(
        "worldline.envs.small.blackjack:BlackjackWorld",
        "worldline.envs.small.blackjack:BlackjackConfig",
    ),
    "haggling": WorldSource(
        "worldline.envs.small.haggling:HagglingWorld",
        "worldline.envs.small.haggling:HagglingConfig",
    ),
    "guess": WorldSource(
        "worldline.envs.small.guess:GuessWorld",
        "worldline.envs.small.guess:GuessConfig",
    ),
    "taxi": WorldSource(
        "worldline.envs.small.taxi:TaxiWorld",
        "worldline.envs.small.taxi:TaxiConfig",
    ),
    "keydoor": WorldSource(
        "worldline.envs.small.keydoor:KeydoorWorld",
        "worldline.envs.small.keydoor:KeydoorConfig",
    ),
    "echo": WorldSource(
        "worldline.envs.small.echo:EchoWorld",
        "worldline.envs.small.echo:EchoConfig",
    ),
    "vault": WorldSource(
        "worldline.envs.small.vault:VaultWorld",
        "worldline.envs.small.vault:VaultConfig",
    ),
    "helpdesk": WorldSource(
        "worldline.envs.small.helpdesk:HelpdeskWorld",
        "worldline.envs.small.helpdesk:HelpdeskConfig",
    ),
    "burrow": WorldSource(
        "worldline.envs.small.burrow:BurrowWorld",
        "worldline.envs.small.burrow:BurrowConfig",
    ),
    "granary": WorldSource(
        "worldline.envs.small.granary:GranaryWorld",
        "worldline.envs.small.granary:GranaryConfig",
    ),
}


PREFIXES: dict[str, WorldSource] = {
    "gym:": WorldSource("worldline.envs.gym:GymWorld", "worldline.envs.gym:GymConfig"),
    "textarena:": WorldSource("worldline.envs.textarena:TextArenaWorld", "worldline.envs.textarena:TextArenaConfig"),
    "openenv:": WorldSource("worldline.envs.openenv.world:OpenEnvWorld", "worldline.envs.openenv.world:OpenEnvConfig"),
    "imagined:": WorldSource(
        "worldline.adwm.pessimistic_world:load_imagined",
        "worldline.adwm.pessimistic_world:ImaginedConfig",
    ),
}
"""Worlds made from what follows the prefix: an id, a URL, a folder. Those of `imagined:` are above this package."""


def load(
    name: str,
    data: Path | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    workers: int = 0,
) -> World:
    """The world called `name`; `data` is its data on disk, `options` are its own settings.

    `name` must come from the command line or from Python: `module:attr` runs code, `openenv:URL` asks a server.
    With `workers`, the episodes run in that many processes.
    """
    settings = dict(options or {})
    if workers:
        from worldline.envs.worker_process import Recipe
        from worldline.envs.workers import WorkerWorld

        return WorkerWorld(Recipe(load, name, data, settings), workers)
    for prefix, source in PREFIXES.items():
        if name.startswith(prefix):
            return _load_prefixed(name, prefix, source, data, settings)
    if ":" in name:
        from worldline.envs.custom import load_custom

        return load_custom(name, data, settings)
    if name not in WORLDS:
        _refuse_bare_module(name)
        hint = suggest(name, list(WORLDS))
        raise InputError(f"unknown environment '{name}'{hint} (or module:attr for your own, gym:ID for Gymnasium's)")
    return _load(name, WORLDS[name], data, settings)


def load_builtin(
    name: str, data: Path | None = None, options: Mapping[str, Any] | None = None, *, source: str
) -> World:
    """As `load`, for a name that was read from data: `source` says from which. Only a built-in world is loaded."""
    if name in WORLDS:
        return _load(name, WORLDS[name], data, dict(options or {}))
    if name.startswith("imagined:"):
        raise InputError(f"{source} was played in a world model, {name!r}: --env imagined:FOLDER says where that is")
    flag = f"--env {shlex.quote(name)}" if name.isprintable() else "--env MODULE:ATTR"
    if ":" in name:
        raise InputError(f"{source} names its environment {name!r}, and data runs no code: give {flag} if you trust it")
    raise InputError(f"{source} names its environment {name!r}, which is not a built-in: --env NAME says which to use")


def world_model_digest(name: str) -> str:
    """What the world model behind `imagined:FOLDER` is; empty for every other world.

    The folder may hold more than the model, such as runs in it.
    """
    if not name.startswith("imagined:"):
        return ""
    folder = Path(name.removeprefix("imagined:")).expanduser()
    parts = (path for part in ("kernel", "log", "sample.json") for path in (folder / part, *(folder / part).rglob("*")))
    return files.digest(path for path in parts if path.is_file())


def source_of(name: str) -> WorldSource | None:
    """Where the world called `name` comes from; None for user code, and for a name that is none."""
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
    return PREFIXES[prefix] if prefix else WORLDS.get(name)


def describe(name: str) -> str:
    """The settings of an environment that `source_of` has, as its help shows them."""
    source = source_of(name)
    assert source is not None
    data = f"  --data PATH: {source.data}{'' if source.needs_data else ' (optional)'}\n" if source.data else ""
    shown = public(name) if name.startswith("openenv:") else name
    return f"settings of {shown}:\n{data}{options_help(_attribute(source.config))}"


def settings(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings of an environment that `source_of` has: its defaults, but for `options`."""
    source = source_of(name)
    assert source is not None
    config = validate(_attribute(source.config), dict(options or {}), source=name, prefix="options.")
    values: dict[str, Any] = config.model_dump(mode="json")
    return values


def _load(name: str, source: WorldSource, data: Path | None, settings: dict[str, Any]) -> World:
    config = validate(_attribute(source.config), settings, source=name, prefix="options.")
    arguments: dict[str, Any] = {"config": config}
    if not source.data:
        _refuse_data(name, data)
    elif data is None and source.needs_data:
        raise InputError(f"{name} needs --data PATH: {source.data}")
    elif data is not None and not data.exists():
        raise InputError(f"--data {data}: no such file or folder; {name} takes {source.data}")
    else:
        arguments["data"] = data
    world: World = _attribute(source.world)(**arguments)
    return world


def _refuse_bare_module(name: str) -> None:
    """A file of the user's own, named without the class in it."""
    file = Path(name if name.endswith(".py") else f"{name}.py")
    if os.path.isfile(file):
        where = "" if file.parent == Path() else f", run from {file.parent}"
        raise InputError(f"unknown environment '{name}': a class in {file} is named as {file.stem}:CLASS{where}")


def _load_prefixed(name: str, prefix: str, source: WorldSource, data: Path | None, settings: dict[str, Any]) -> World:
    _refuse_data(name, data)
    if name == "imagined:":
        raise InputError("imagined: names no world model: write imagined:FOLDER, a folder that worldline fit made")
    config = validate(
        _attribute(source.config), settings, source=public(name) if prefix == "openenv:" else name, prefix="options."
    )
    world: World = _attribute(source.world)(name.removeprefix(prefix), config)
    return world


def _refuse_data(name: str, data: Path | None) -> None:
    if data is not None:
        raise InputError(f"{name} takes no --data: it is made without (got {data})")


def _attribute(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
