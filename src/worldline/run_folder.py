"""The folder of a run: taken once, gone on with under the same settings, replaced only where it holds such a run.

A run is known by its config.json: settings of one kind of run have names that another kind's, or a model's, have not.
"""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from worldline.config import Config
from worldline.types import InputError


def held(config: Config, folder: Path, kind: str) -> dict[str, Any] | None:
    """The settings of the run in `folder`, of the same kind as `config`; None where it is empty or not there."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    try:
        known = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = None
    if not isinstance(known, dict) or not known or not known.keys() <= type(config).model_fields.keys():
        raise InputError(f"{folder}: is not empty and holds no {kind}: name another folder")
    return known


def emptied(folder: Path) -> Path:
    """The folder without what an earlier run left in it, made where it is missing. It may be a mount: it stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return folder


def going_on(
    config: Config, folder: Path, kind: str, *, resume: bool, overwrite: bool, adjustable: Collection[str]
) -> bool:
    """Whether a run that is there goes on; InputError where that, or replacing it, was not asked for or cannot be.

    `adjustable` are the settings that may be told anew. Nothing is touched.
    """
    known = held(config, folder, kind)
    if known is None or (overwrite and not resume):
        return False
    if not resume:
        raise InputError(f"{folder}: holds a {kind}: --resume goes on with it, --overwrite starts anew")
    now = config.model_dump(mode="json")
    changed = [name for name in known if name not in adjustable and known[name] != now[name]]
    if changed:
        raise InputError(f"{folder}: was begun with another '{changed[0]}'; resume with the same settings")
    return True
