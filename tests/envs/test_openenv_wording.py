"""Typed actions and observations as text, after schemas as OpenEnv's environments have them."""

from typing import Any

import pytest

from worldline.envs import load
from worldline.envs.openenv.wording import NotAnActionError, Wording, wording_of
from worldline.types import InputError

METADATA = {"type": "object", "additionalProperties": True}


def schema(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"properties": {"metadata": METADATA, **properties}, "required": list(required)}


def worded(given: dict[str, Any], field: str = "", fixed: dict[str, Any] | None = None, shown: str = "") -> Wording:
    return wording_of("openenv:http://here", given, field, fixed or {}, shown)


def test_the_one_field_that_is_required_takes_the_text() -> None:
    code = schema(("code",), code={"type": "string"}, timeout={"type": "number", "default": 1})
    assert worded(code).action("print(1)") == {"code": "print(1)"}
    optional = schema((), message={"anyOf": [{"type": "string"}, {"type": "null"}], "default": None})
    assert worded(optional).action("hello") == {"message": "hello"}


def test_numbers_and_listed_values_are_read_as_what_they_are() -> None:
    maze = worded(schema(("action",), action={"type": "integer"}))
    assert maze.action("3") == {"action": 3}
    with pytest.raises(NotAnActionError, match="must be written as JSON, got 'north'"):
        maze.action("north")
    grid = schema(("action",), action={"$ref": "#/$defs/Move"})
    grid["$defs"] = {"Move": {"enum": ["UP", "DOWN"], "type": "string"}}
    assert worded(grid).info({"x": 1}, {})["admissible"] == ("UP", "DOWN")
    with pytest.raises(NotAnActionError, match="must be one of UP, DOWN"):
        worded(grid).action("up")


def test_a_field_that_is_left_open_is_asked_for() -> None:
    tool = schema(("tool_name", "arguments"), tool_name={"type": "string"}, arguments={"type": "object"})
    with pytest.raises(InputError, match="the fields tool_name, arguments: --options.action_field says which"):
        worded(tool)
    fixed = {"tool_name": "echo", "arguments": {"loud": True}}
    action = worded(tool, "arguments.message", fixed).action("hi")
    assert action == {"tool_name": "echo", "arguments": {"loud": True, "message": "hi"}}
    assert fixed["arguments"] == {"loud": True}
    assert worded(tool, "json").action('{"tool_name": "a", "arguments": {}}') == {"tool_name": "a", "arguments": {}}
    with pytest.raises(NotAnActionError, match="must be a JSON object"):
        worded(tool, "json").action("[1]")


def test_an_observation_loses_nothing() -> None:
    move = schema(("move",), move={"type": "string"})
    assert (
        worded(move).observation({"text": "a room", "goal": "tea", "admissible": ["go"], "metadata": {}}, {})
        == "a room"
    )
    both = {"position": [1, 2], "sign": "left", "error": None}
    assert worded(move).observation(both, {}) == "position: [1, 2]\nsign: left"
    assert worded(move, shown="sign").observation(both, {}) == "left"
    assert worded(move, shown="metadata.note").observation(both, {"note": "x"}) == "x"
    assert worded(move).observation({"metadata": {"message": "ready"}}, {"message": "ready"}) == "ready"


def test_what_fields_say_beyond_the_text() -> None:
    move = worded(schema(("move",), move={"type": "string"}))
    assert move.info({"legal_actions": [0, 2]}, {}) == {"admissible": ["0", "2"]}
    info = move.info({"score": 0.5}, {"won": True, "valid": False, "success": True})
    assert info == {"admissible": None, "score": 0.5, "won": True, "valid": False}
    assert move.goal({"instruction": "sort the file"}, {}) == "sort the file"


def test_what_is_no_server_is_refused() -> None:
    with pytest.raises(InputError, match=r"openenv:echo: give a server as openenv:http://HOST:PORT"):
        load("openenv:echo")
    with pytest.raises(InputError, match="unknown setting 'acton_field': did you mean 'action_field'"):
        load("openenv:http://localhost:1", options={"acton_field": "x"})
