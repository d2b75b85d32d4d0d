"""What `collect` notes in a log's folder, so that a name in it stands for one thing.

The options of each environment, since tasks of the same name are others at other options; a digest of the file of an
environment of the user's own, since it may change; and the settings of each policy, since a model that plays otherwise
is another policy. Nothing is noted of a log that was imported.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldline import envs, files, store
from worldline.collect_settings import CollectConfig
from worldline.config import dashed
from worldline.types import InputError
from worldline.user_module import module_file

OPTIONS_FILE = ".options.json"
"""The options of each environment whose episodes are there."""
CODE_FILE = ".code.json"
"""A digest of the file of each environment of the user's own, as it was when the first of its episodes was played."""
POLICIES_FILE = ".policies.json"
"""The settings of each policy, by its name, whose episodes are there."""
BEHAVIOUR = ("prompt", "history", "mode", "temperature", "max_prompt_tokens", "max_new_tokens")
"""What makes another policy of the same model; a name has its epsilon beside it in the log."""


def refuse_other_options(config: CollectConfig, folder: Path) -> None:
    """Refuse a folder with episodes of the environment at other options: tasks of the same name would be others."""
    path = folder / OPTIONS_FILE
    options_of = _noted(path, "have the options of this run")
    own = _options(config.env, config.options)
    there = options_of.setdefault(config.env, own)
    if there != own:
        raise InputError(
            f"{folder}: holds episodes of {config.env} with {_differing(there, own)}, whose tasks are not those of "
            "this run: give another --out"
        )
    files.write_json(path, options_of)


def other_options(folder: Path, env: str, options: Mapping[str, Any]) -> str:
    """The options that the episodes of `env` in a log were played with, where those given here are others."""
    there = _noted(folder / OPTIONS_FILE, "have the options given here").get(env)
    own = _options(env, options)
    return "" if there is None or there == own else _differing(there, own)


def _options(env: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """As they are noted; those of a built-in environment with its defaults."""
    own = envs.settings(env, options) if env in envs.WORLDS else dict(options)
    return dict(json.loads(json.dumps(own, default=str)))


def _differing(there: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Those of `there` that are others, as flags."""
    names = [name for name in sorted({*there, *own}) if there.get(name) != own.get(name)]
    return " ".join(f"--options.{name} {there[name]}" if name in there else f"no --options.{name}" for name in names)


def changed_code(env: str, folder: Path) -> str:
    """Note the file of an environment of the user's own; a line where the folder's episodes are of another version.

    What else the file imports is not looked at.
    """
    file = module_file(env.partition(":")[0]) if ":" in env and envs.source_of(env) is None else None
    if file is None:
        return ""
    path = folder / CODE_FILE
    digests = _noted(path, f"are of {env} as it is now")
    own = files.digest([file])
    if digests.setdefault(env, own) == own:
        files.write_json(path, digests)
        return ""
    return (
        f"{file.name} was changed since the first episodes of {env} in {folder} were played: if the change matters, "
        "the log mixes two environments: another --out keeps them apart, --overwrite plays this run anew"
    )


def refuse_other_settings(config: CollectConfig, folder: Path) -> None:
    """Refuse a folder with episodes of the policy's name at other settings: two policies would pass for one."""
    if config.policy in ("expert", "random"):
        return
    path, name = folder / POLICIES_FILE, config.policy_name
    with files.locked(folder / f"{POLICIES_FILE}.lock"):
        settings_of = _noted(path, f"of '{name}' have the settings of this run")
        own = config.model_dump(mode="json", include=set(BEHAVIOUR))
        there = settings_of.get(name, own)
        differing = [key for key in BEHAVIOUR if there.get(key) != own[key]]
        if differing and name in store.scan(folder, ["policy"])["policy"].to_pylist():
            raise InputError(
                f"{folder}: holds episodes of '{name}' with {_flags(there, differing)}, and this run has "
                f"{_flags(own, differing)}: give this one another --name, or another --out"
            )
        files.write_json(path, settings_of | {name: own})


def _flags(settings: dict[str, Any], names: list[str]) -> str:
    given = ((name, settings.get(name)) for name in names)
    return " ".join(f"--{dashed(name)} {'(default)' if value is None else value}" for name, value in given)


def _noted(path: Path, alike: str) -> dict[str, Any]:
    """What earlier runs noted in a log's folder; nothing where it holds no episodes."""
    if not path.is_file() or not store.shards(path.parent):
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise InputError(f"{path}: is no JSON: delete it, if all episodes there {alike}") from None
