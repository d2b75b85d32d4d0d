"""The folder of a run: held by one process, gone on with as it was begun, replaced only where it holds such a run.

A run is what its settings and its inputs make of it. config.json has the settings: those of one kind of run have names
that another kind's, or a model's, have not. inputs.json has a digest of every log and model that the run reads. It is
written last when a run begins and deleted first when one is replaced: without it a run cannot be gone on with.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from worldline import files
from worldline.types import InputError

CONFIG, INPUTS, LOCK = "config.json", "inputs.json", ".run.lock"
KINDS = {"cloning run": "only_success", "training run": "algo", "world model": "kernel_steps"}
"""The kinds of runs, each with a setting that only its config.json has."""


class RunConfig(Protocol):
    """What the settings of every kind of run have: pydantic models with a folder and two flags."""

    @property
    def out(self) -> Path: ...

    @property
    def resume(self) -> bool: ...

    @property
    def overwrite(self) -> bool: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Run:
    """A run of some kind that wants to be in the folder `config.out`."""

    config: RunConfig
    kind: str
    adjustable: Collection[str]
    """Settings that a resumed run may be given anew: "updates", "rollout.cache_gib", or a whole section, "server"."""
    inputs: Mapping[str, str]
    """What the run reads, as the user wrote it, with its digest."""

    @property
    def folder(self) -> Path:
        return self.config.out

    def goes_on(self) -> bool:
        """Whether a run that is there goes on; InputError where going on or replacing it is not possible or not wanted.

        Nothing is touched.
        """
        begun = self._settings()
        if begun is None or (self.config.overwrite and not self.config.resume):
            return False
        if not self.config.resume:
            raise InputError(f"{self.folder}: holds a {self.kind}: --resume goes on with it, --overwrite starts anew")
        before, now = _flat(begun), _flat(self.config.model_dump(mode="json"))
        names = [*before, *(name for name in now if name not in before and name.partition(".")[0] in begun)]
        changed = [name for name in names if before.get(name) != now.get(name) and not self._may_change(name)]
        if changed:
            raise InputError(f"{self.folder}: was begun with another '{changed[0]}'; resume with the same settings")
        return self._same_inputs()

    @contextmanager
    def opened(self) -> Iterator[bool]:
        """Hold the folder; it has what the run had finished, or nothing. Gives whether the run goes on."""
        with files.locked(self.folder / LOCK, taken=f"{self.folder}: another process is at work on this run"):
            for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())):
                files.remove_leftovers(folder)
            goes_on = self.goes_on()
            if not goes_on:
                _empty(self.folder)
            files.write_json(self.folder / CONFIG, self.config.model_dump(mode="json"))
            files.write_json(self.folder / INPUTS, dict(self.inputs))
            yield goes_on

    def _may_change(self, name: str) -> bool:
        return name in self.adjustable or name.partition(".")[0] in self.adjustable

    def _settings(self) -> dict[str, Any] | None:
        """The settings of the run in the folder, of the same kind as this one; None where it is empty or not there."""
        if not _content(self.folder):
            return None
        begun = _json_object(self.folder / CONFIG)
        if not begun or not begun.keys() <= self.config.model_dump(mode="json").keys():
            others = [kind for kind, setting in KINDS.items() if kind != self.kind and setting in (begun or ())]
            holds = f"holds a {others[0]}, and" if others else "is not empty and holds"
            raise InputError(f"{self.folder}: {holds} no {self.kind}: name another folder")
        return begun

    def _same_inputs(self) -> bool:
        before = _json_object(self.folder / INPUTS)
        if before is None:
            if [path.name for path in _content(self.folder)] == [CONFIG]:
                return False  # killed before it did anything
            raise InputError(f"{self.folder}: has no {INPUTS}: this {self.kind} cannot go on, --overwrite starts anew")
        for name in sorted(before.keys() | self.inputs.keys()):
            if before.get(name) != self.inputs.get(name):
                raise InputError(
                    f"{name}: has changed since the {self.kind} in {self.folder} began: resume with it as it was, "
                    f"or --overwrite starts anew"
                )
        return True


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their names with those of the sections they are in: "rollout.temperature"."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def _content(folder: Path) -> list[Path]:
    """What is in the folder, apart from what a killed process may leave before it begins."""
    inside = folder.iterdir() if folder.is_dir() else ()
    return [path for path in inside if path.name != LOCK and not files.is_temporary(path)]


def _empty(folder: Path) -> None:
    """Delete what an earlier run left, its inputs.json first; config.json stays until it is replaced.

    The folder may be a mount, and stays.
    """
    files.delete(folder / INPUTS)
    for path in _content(folder):
        if path.name != CONFIG:
            files.delete(path)


def _json_object(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
