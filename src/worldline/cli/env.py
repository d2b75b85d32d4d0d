"""`worldline env`: what is installed and what it runs on, to paste into a bug report."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from typing import ClassVar

from worldline import envs
from worldline.cli.verb_result import VerbResult, table
from worldline.config import Config, positional, suggest
from worldline.types import InputError

PACKAGES = ("worldline", "torch", "transformers", "accelerate", "peft", "pyarrow", "pydantic", "scipy", "bm25s")
EXTRAS = {
    "bnb": "bitsandbytes",
    "gymnasium": "gymnasium",
    "readers": "polars",
    "scienceworld": "scienceworld",
    "alfworld-reference": "alfworld",
    "browser": "playwright",
    "dense": "sentence_transformers",
    "docs": "mkdocs",
    "openenv": "openenv",
    "ray": "ray",
    "textarena": "textarena",
    "trackio": "trackio",
    "trl": "trl",
    "wandb": "wandb",
}


class EnvConfig(Config):
    """Print versions, devices and extras, for a bug report; with the name of an environment, its settings.

    `worldline env serve NAME` makes an environment an OpenEnv server (see worldline env serve --help).
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline env",
        "worldline env household",
        "worldline env --json",
        "worldline env serve household --port 8000",
    )

    name: str = positional("", help="an environment: print its settings instead")


Settings = EnvConfig


def run(settings: EnvConfig) -> VerbResult:
    if settings.name:
        return _environment(settings.name)
    system = {"python": sys.version.split()[0], "platform": platform.platform(), "cpu_cores": os.cpu_count()}
    devices = _devices()
    packages = {name: _version(name) for name in PACKAGES}
    extras = {extra: importlib.util.find_spec(module) is not None for extra, module in EXTRAS.items()}
    java = shutil.which("java") is not None
    rows = [
        *((name, str(value)) for name, value in system.items()),
        ("devices", ", ".join(devices)),
        *((name, version or "missing") for name, version in packages.items()),
        *((f"[{extra}]", "yes" if there else "no") for extra, there in extras.items()),
        ("java", "yes" if java else "no"),
    ]
    data = {**system, "devices": devices, "packages": packages, "extras": extras, "java": java}
    return VerbResult(data, (table("", ("component", "version or device"), rows),))


def _environment(name: str) -> VerbResult:
    source = envs.source_of(name)
    if source is None:
        raise InputError(f"unknown environment '{name}'{suggest(name, list(envs.WORLDS))}")
    data = {"name": name, "data": source.data or None, "needs_data": source.needs_data, "settings": envs.settings(name)}
    return VerbResult(data, (envs.describe(name),))


def _devices() -> list[str]:
    import torch

    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return names or (["mps"] if torch.backends.mps.is_available() else ["cpu"])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
