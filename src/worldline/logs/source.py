"""Where imported episodes come from, and what the user says about them that the file does not."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from worldline.config import Config, option
from worldline.types import Step


class Options(Config):
    """What the user says about the episodes of a file; where given, it wins over what the file says."""

    env: str = option("", help="name of the environment, instead of what the file says")
    policy: str = option("", help="name of the policy, instead of what the file says")
    split: str = option("", help="split the tasks belong to, instead of what the file says")
    reward: str = option("", help="field of a row that holds the reward (a.b for b inside a); inspect: the scorer")
    score: str = option("", help="field of a row that holds the environment's own score, if it has one")


@dataclass(frozen=True)
class ImportSource:
    """The file, and the options it is read with."""

    path: Path
    options: Options

    @cached_property
    def name(self) -> str:
        """The file's name without the suffixes that say how it is written."""
        path = self.path
        while path.suffix in (".gz", ".xz", ".json", ".jsonl", ".ndjson", ".eval"):
            path = path.with_suffix("")
        return path.name

    def episode_id(self, policy: str, task: str, trial: str) -> str:
        """The same for the same file, whenever it is imported."""
        return "/".join(filter(None, [self.name, policy, task, trial]))


def override(row: Any, options: Options) -> dict[str, Any]:
    """A row with `reward` and `score` taken from where the user said they are."""
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


def as_meta(extras: dict[str, Any]) -> dict[str, str]:
    """Extras as a trajectory keeps them: texts as they are, the rest as JSON, nulls not at all."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in extras.items()
        if value is not None
    }


def with_final_reward(steps: list[Step], reward: float | None) -> tuple[Step, ...]:
    """The steps, with the episode's reward on the last one. An unknown reward is nan there: nothing is made up,
    and whoever averages it sees at once that it was not known."""
    if not steps:
        if reward:
            raise ValueError(f"a reward of {reward:g}, but no step that could have earned it")
        return ()
    last = steps[-1].model_copy(update={"reward": float("nan") if reward is None else reward})
    return (*steps[:-1], last)


def reason(error: ValidationError) -> str:
    """What pydantic says, in one line that names the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{field}: {message}{more}" if field else f"{message}{more}"
