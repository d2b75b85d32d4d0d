"""`worldline env serve`: an environment as an OpenEnv server."""

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from worldline import envs
from worldline.cli.verb_result import VerbResult, note
from worldline.config import Config, option, positional
from worldline.types import InputError


class EnvServeConfig(Config):
    """Serve an environment by OpenEnv's protocol, for its own clients and those of TRL, SkyRL and TorchRL.

    Each connection has an episode of its own. Serves until Ctrl-C. Whoever reaches the port can play: there is no
    authentication, so it serves this machine only unless --host says otherwise.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline env serve household --port 8000",
        "worldline env serve alfworld --data ~/alfworld --port 8000 --host 0.0.0.0",
        "worldline env serve household --options.level tiny --port 8000",
    )

    env: str = positional(help="environment: household, shop, searchqa, alfworld, webshop, ..., module:attr, gym:ID")
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself, e.g. --options.level tiny")
    port: int = option(8000, help="where to serve; 0: any free port", ge=0, le=65535)
    host: str = option("127.0.0.1", help="address to listen at; 0.0.0.0: every one this machine has")
    sessions: int = option(256, help="episodes that can be under way at once", ge=1)


Settings = EnvServeConfig


def run(settings: EnvServeConfig) -> VerbResult:
    world = envs.load(settings.env, settings.data, settings.options)
    try:
        from worldline.envs.openenv.server import serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"env serve needs OpenEnv (no module {error.name}): pip install 'worldline[openenv]'"
        ) from None
    urls: list[str] = []

    def started(url: str) -> None:
        urls.append(url)
        note(f"{world.name} is served at {url}  (Ctrl-C ends it)")

    with contextlib.suppress(KeyboardInterrupt):
        serve(world, host=settings.host, port=settings.port, sessions=settings.sessions, started=started)
    return VerbResult({"env": world.name, "url": urls[0]}, ())
