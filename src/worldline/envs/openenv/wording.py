"""An OpenEnv environment's typed actions and observations as text.

The server's schema says which fields there are. The text of an action fills one field, read as that field's type, or is
the whole action as JSON. The text of an observation is one field, or all of them line by line: nothing is dropped by a
guess.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worldline.types import Info, InputError

JSON = "json"
"""The action field that stands for the whole action."""
_NO_CONTENT = ("done", "reward", "metadata")
_ADMISSIBLE = ("admissible", "admissible_commands", "legal_actions", "legal_moves", "available_actions")
_GOALS = ("goal", "instruction")


class NotAnActionError(ValueError):
    """A text that cannot be put into the action's field; the message says why."""


@dataclass(frozen=True)
class Wording:
    """How one server's actions and observations read."""

    action_field: str
    """Dotted; `json` for the whole action."""
    kind: str
    """The field's JSON type."""
    choices: tuple[str, ...]
    """What the field may be, where the schema lists it."""
    fixed: Mapping[str, Any]
    """Fields that are the same in every action."""
    observation_field: str
    """Dotted; empty for all fields."""

    def action(self, text: str) -> dict[str, Any]:
        """The action that `text` stands for; NotAnActionError where it stands for none."""
        if self.action_field == JSON:
            value = _parsed(text)
            if not isinstance(value, dict):
                raise NotAnActionError("the action must be a JSON object")
            return {**self.fixed, **value}
        if self.choices and text not in self.choices:
            raise NotAnActionError(f"the action must be one of {', '.join(self.choices)}")
        action = json.loads(json.dumps(dict(self.fixed)))  # a copy down to its inner objects
        *outer, last = self.action_field.split(".")
        place = action
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = text if self.kind == "string" else _parsed(text)
        return dict(action)

    def observation(self, given: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
        """What an agent reads."""
        if self.observation_field:
            value: Any = {**given, "metadata": metadata}
            for name in self.observation_field.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            return _written(value)
        hidden = (*_NO_CONTENT, *_ADMISSIBLE, *_GOALS[:1])
        content = {name: value for name, value in given.items() if name not in hidden and value not in (None, "")}
        content = content or {name: value for name, value in metadata.items() if value not in (None, "")}
        if len(content) == 1:
            return _written(next(iter(content.values())))
        return "\n".join(f"{name}: {_written(value)}" for name, value in content.items())

    def info(self, given: Mapping[str, Any], metadata: Mapping[str, Any]) -> Info:
        """What the fields say beyond the text; not `success`, which in OpenEnv mostly says that a call worked."""
        fields = {**metadata, **given}
        listed = next((fields[name] for name in _ADMISSIBLE if isinstance(fields.get(name), list)), None)
        info: Info = {"admissible": [_written(one) for one in listed] if listed is not None else self.choices or None}
        for name in ("won", "valid", "answerable"):
            if isinstance(fields.get(name), bool):
                info[name] = fields[name]
        if isinstance(fields.get("score"), int | float):
            info["score"] = float(fields["score"])
        return info

    def goal(self, given: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
        """The task's goal, where the first observation has a field for it; else empty."""
        fields = {**metadata, **given}
        return next((str(fields[name]) for name in _GOALS if fields.get(name)), "")


def wording_of(
    name: str, schema: Mapping[str, Any], action_field: str, fixed: Mapping[str, Any], observation_field: str
) -> Wording:
    """The wording of the server `name` after its action schema; InputError where it leaves the action's field open."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not action_field:
        action_field = _only_field(name, schema, fixed)
    kind, choices = _type_of(properties.get(action_field, {}), schema.get("$defs", {}))
    return Wording(action_field, kind, choices, fixed, observation_field)


def _only_field(name: str, schema: Mapping[str, Any], fixed: Mapping[str, Any]) -> str:
    """The one field that must be given, or the one there is."""
    names: list[str] = [field for field in schema.get("properties", {}) if field != "metadata" and field not in fixed]
    required = [field for field in names if field in schema.get("required", ())]
    for fields in (required, names):
        if len(fields) == 1:
            return fields[0]
    raise InputError(
        f"{name}: an action has the fields {', '.join(names) or '(none)'}: --options.action_field says which one the "
        f"text of an action fills ('{JSON}': the text is the whole action), --options.action.NAME fixes others"
    )


def _type_of(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The JSON type of a field, and its values where they are listed."""
    if "$ref" in field:
        field = definitions.get(str(field["$ref"]).rpartition("/")[2], {})
    options: Sequence[Mapping[str, Any]] = field.get("anyOf", ())
    if options:
        return _type_of(next((one for one in options if one.get("type") != "null"), {}), definitions)
    return str(field.get("type", "string")), tuple(_written(value) for value in field.get("enum", ()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise NotAnActionError(f"the action must be written as JSON, got {text[:80]!r}") from None


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
