"""Where imported episodes come from, and what the user says about them that the file does not."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from worldline.config import Config, option
from worldline.logs.paths import RowPath
from worldline.types import Step

NO_ENV = "imported"
"""The environment of episodes whose file names none."""
_EVERYDAY = {"results", "traces", "trajectory", "train_rollouts", "eval_rollouts", "agent"}
"""What tools call the file, or the folder, of every run: such a file is called after the folder above."""
_UNIQUE = re.compile(r"[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Options(Config):
    """What the user says about the episodes of a file; where given, it wins over what the file says."""

    env: str = option("", help="name of the environment, instead of what the file says")
    policy: str = option("", help="name of the policy, instead of what the file says")
    split: str = option("", help="split the tasks belong to, instead of what the file says")
    reward: str = option("", help="field of a row that holds the reward (a.b for b inside a); inspect: the scorer")
    score: str = option("", help="field of a row that holds the environment's own score, if it has one")
    map: tuple[str, ...] = option((), help="FIELD=PATH: where a field stands in a row, such as action=log[].act")


@dataclass(frozen=True)
class Unnamed:
    """How many episodes name no policy, or no task that `--map` could name, by the name they got instead."""

    policies: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ImportSource:
    """The file, and the options it is read with."""

    path: Path
    options: Options
    mappings: Mapping[str, RowPath] = field(default_factory=dict)
    unnamed: Unnamed = field(default_factory=Unnamed)

    @cached_property
    def name(self) -> str:
        """The file's name without the suffixes that say how it is written; its folder's where that says nothing."""
        path = self.path
        while path.suffix in SUFFIXES:
            path = path.with_suffix("")
        names = [path.name, *(folder.name for folder in self.path.resolve().parents)]
        return next((name for name in names[:3] if name and name not in _EVERYDAY), path.name)

    def policy(self, own: str) -> str:
        """The policy of an episode that says `own`: what the user says wins, and the file's name is the last resort."""
        name = self.options.policy or own
        if not name:
            name = self.name
            self.unnamed.policies[name] += 1
        return name

    def task(self, own: str, opening: str) -> str:
        """The task of an episode that says `own`; one that says none is named after its opening, and counted."""
        if own:
            return own
        name = self.named_after(opening)
        self.unnamed.tasks[name] += 1
        return name

    def episode_id(self, policy: str, task: str, trial: str, own: str = "") -> str:
        """The same for the same file, whenever it is imported. An id of the row's own is kept as it is if no other
        file can have it (a UUID, or 16 or more hexadecimal digits), and under the file's name if it is short."""
        if own:
            return own if is_unique(own) else f"{self.name}/{own}"
        return "/".join(filter(None, [self.name, policy, task, trial]))

    def own_id(self, own: str) -> dict[str, str]:
        """For `meta`: the row's id where it is not the episode's."""
        return {"id": own} if own and not is_unique(own) else {}

    def named_after(self, opening: str) -> str:
        """A task id for a row that has none: the same for two agents that were given the same opening."""
        return hashlib.blake2b(opening.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


SUFFIXES = (".gz", ".xz", ".json", ".jsonl", ".ndjson", ".eval", ".csv", ".tsv", ".parquet")


def is_unique(name: str) -> bool:
    """Whether an id looks as if it were made to be unique: a UUID, a hash."""
    return _UNIQUE.fullmatch(name) is not None


def override(row: Any, options: Options) -> dict[str, Any]:
    """A row with `reward` and `score` taken from the fields that `options` names."""
    named = {"reward": options.reward, "score": options.score}
    return present({**present(row), **{name: pick(row, field) for name, field in named.items() if field}})


def present(row: Any) -> dict[str, Any]:
    """What a row says: a null says nothing."""
    if not isinstance(row, dict):
        raise ValueError(f"an episode is a JSON object, this is {type(row).__name__}")
    return {name: value for name, value in row.items() if value is not None}


def pick(row: Any, field: str) -> Any:
    """The value at `a.b` inside a row; ValueError if a part of the way is missing."""
    value = row
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ValueError(f"it has no field '{field}'")
        value = value[part]
    return value


def chosen_reward(row: dict[str, Any], options: Options, usual: Any) -> float | None:
    """The reward of a row whose format has it in a place of its own: --reward and --map win over that."""
    value = pick(row, options.reward) if options.reward else row.get("reward", usual)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its reward is {str(value)[:80]!r}, which is no finite number")
    return float(value)


def as_meta(extras: dict[str, Any]) -> dict[str, str]:
    """Extras as a trajectory keeps them: texts as they are, the rest as JSON, nulls not at all."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in extras.items()
        if value is not None
    }


def with_final_reward(steps: list[Step], reward: float | None) -> tuple[Step, ...]:
    """The steps, with the episode's reward on the last one. An unknown reward is nan there: nothing is made up,
    and every mean over it is nan too."""
    if not steps:
        if reward:
            raise ValueError(f"a reward of {reward:g}, but no step that could have earned it")
        return ()
    last = steps[-1].model_copy(update={"reward": float("nan") if reward is None else reward})
    return (*steps[:-1], last)


MENDS = {
    "task": "'task' is the instruction to the agent (--map goal=FIELD)",
    "task_id": "'task_id' says which task it is (--map task_id=FIELD)",
    "steps": "'steps' is the list of its steps (--map steps=FIELD)",
}
"""What a field of a row is that may go by another name there, and the flag that mends it."""


def reason(error: ValidationError) -> str:
    """What pydantic says, in one line that names the field, or all fields of the row that are missing."""
    errors = error.errors(include_url=False)
    missing = [str(one["loc"][0]) for one in errors if one["type"] == "missing" and len(one["loc"]) == 1]
    if missing:
        more = f" (and {len(errors) - len(missing)} more)" if len(errors) > len(missing) else ""
        mends = "; ".join(MENDS[name] for name in missing if name in MENDS)
        return f"{', '.join(missing)}: Field required{more}{': ' if mends else ''}{mends}"
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field}: {message}{more}" if field else f"{message}{more}"
