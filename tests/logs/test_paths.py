"""The path language of --map."""

from typing import Any

import pytest

from worldline.logs.paths import parse
from worldline.types import InputError

ROW = {"a": {"b": 1, "c.d": 2}, "log": [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3]}, {"y": []}], "n": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ('a."c.d"', 2),
        ("log[0].x", 1),
        ("log[-1].y", []),
        ("log[].x", [1, 2, None]),
        ("log[].y[]", [1, 2, 3]),
        ("log[1].y[0]", 3),
        ("n", None),
    ],
)
def test_what_a_path_names(path: str, value: Any) -> None:
    parsed = parse(path, "--map")
    assert parsed.pick(ROW) == value
    assert parsed.many == ("[]" in path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.z", "no field 'a.z'"),
        ("a[]", "no list at 'a'"),
        ("log[3]", r"no field 'log\[3\]'"),
        ("n.x", "no field 'n.x'"),
    ],
)
def test_what_is_not_there_is_named(path: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(path, "--map").pick(ROW)


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a[", "a[x]", 'a."b', "a b]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(InputError, match=r"--map action=: '.*' is no path"):
        parse(path, "--map action=")
