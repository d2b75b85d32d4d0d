"""The path language of --map."""

from typing import Any

import pytest

from worldline.logs.paths import parse
from worldline.types import InputError

LOG = [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3], "in": {"z": 5}}, {"y": []}]
ROW = {"a": {"b": 1, "c.d": 2}, "log": LOG, "n": None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ('a."c.d"', 2),
        ("log[0].x", 1),
        ("log[-1].y", []),
        ("log[].x", [1, 2, None]),
        ("log[].in.z", [None, 5, None]),
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
        ("lg[].x", "no field 'lg'"),
    ],
)
def test_what_is_not_there_is_named(path: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(path, "--map").pick(ROW)


def test_a_key_that_no_item_has_is_lacking() -> None:
    assert parse("log[].z", "--map").lacks(ROW) == "no item has 'log[].z': they have x, y, in"
    assert parse("log[].in.q", "--map").lacks(ROW) == "no item has 'log[].in.q': they have z"
    for path in ("log[].x", "log[].in.z", "log[].y[]", "a.b"):
        assert not parse(path, "--map").lacks(ROW)
    assert not parse("log[].z", "--map").lacks({"log": []})
    assert not parse("log[].z", "--map").lacks({"log": [{"z": None}]})


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a[", "a[x]", 'a."b', "a b]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(InputError, match=r"--map action=: '.*' is no path"):
        parse(path, "--map action=")
