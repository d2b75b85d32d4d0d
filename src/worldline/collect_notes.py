"""What `collect` notes in a log's folder, so that a name in it stands for one thing.

The options of each environment, since tasks of the same name are others at other options; the specification and the
settings of each policy, since a model that plays otherwise is another policy; and digests of the files of environments
and policies of the user's own, since they may change. Nothing is noted of a log that was imported.
"""

import json
import os
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
"""Digests of files of the user's own, of an environment and of a policy's name, when their first episode was played."""
POLICIES_FILE = ".policies.json"
"""The specification and the settings of each policy, by its name, whose episodes are there."""
SERVED = ("vllm:", "api:")
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


def changed_code(config: CollectConfig, folder: Path) -> list[str]:
    """Note the files of the user's own that this run plays; a line for each that was another when the folder's first
    episodes of its environment, or of its policy's name, were played.

    What else a file imports is not looked at.
    """
    env, name, path = config.env, config.policy_name, folder / CODE_FILE
    env_file = _own_file(env) if envs.source_of(env) is None else None
    policy_file = _own_file(config.policy) if not config.policy.startswith((*SERVED, "hf:")) else None
    sources = (
        (env_file, env, env, "the log mixes two environments: another --out"),
        (policy_file, f"policy {name}", f"'{name}'", "the name stands for two policies: another --name"),
    )
    if env_file is None and policy_file is None:
        return []
    notes = []
    with files.locked(folder / f"{CODE_FILE}.lock"):
        digests = _noted(path, f"are of {env} and '{name}' as they are now")
        if policy_file is not None and not _has_policy(folder, name):
            digests.pop(f"policy {name}", None)
        for file, key, played, cure in sources:
            own = files.digest([file]) if file is not None else ""
            if file is not None and digests.setdefault(key, own) != own:
                notes.append(
                    f"{file.name} was changed since the first episodes of {played} in {folder} were played: if the "
                    f"change matters, {cure} keeps them apart, --overwrite plays this run anew"
                )
        files.write_json(path, digests)
    return notes


def _own_file(spec: str) -> Path | None:
    """The file of `module:attr`; None for a specification of another kind."""
    module, colon, _ = spec.partition(":")
    return module_file(module) if colon else None


def refuse_other_policy(config: CollectConfig, folder: Path) -> None:
    """Refuse a folder with episodes of another policy of this name, or of it at other settings: two would pass for
    one. The address of a server is no part of a policy, nor is the spelling of a path."""
    path, name = folder / POLICIES_FILE, config.policy_name
    served = config.policy.startswith(SERVED)
    kind, _, place = config.policy.partition(":")
    played = f"hf:{os.path.normpath(place)}" if kind == "hf" else config.policy
    own: dict[str, Any] = {"policy": played.partition("@http")[0] if served else played}
    if config.policy not in ("expert", "random"):
        own |= config.model_dump(mode="json", include=set(BEHAVIOUR))
    with files.locked(folder / f"{POLICIES_FILE}.lock"):
        noted = _noted(path, f"of '{name}' have the policy and the settings of this run")
        there = own | noted.get(name, {})  # what earlier versions did not note is taken to be alike
        differing = [key for key in own if there[key] != own[key]]
        if differing and _has_policy(folder, name):
            raise InputError(
                f"{folder}: holds episodes of '{name}' with {_flags(there, differing)}, and this run has "
                f"{_flags(own, differing)}: give this one another --name, or another --out"
            )
        files.write_json(path, noted | {name: own})


def _has_policy(folder: Path, name: str) -> bool:
    return bool(store.shards(folder)) and name in store.scan(folder, ["policy"])["policy"].to_pylist()


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
