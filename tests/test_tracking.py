"""Metrics reach a tracker: one run, numbered lines, finished whatever happens; a missing one is named."""

import sys
import types
from typing import Any

import pytest

from worldline import tracking
from worldline.types import InputError


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of a stand-in for trackio."""
    recorded: list[tuple[Any, ...]] = []
    fake = types.ModuleType("trackio")
    fake.init = lambda **kwargs: recorded.append(("init", kwargs))  # type: ignore[attr-defined]  # a module made here has no attributes
    fake.log = lambda metrics, step: recorded.append(("log", metrics, step))  # type: ignore[attr-defined]  # a module made here has no attributes
    fake.finish = lambda: recorded.append(("finish",))  # type: ignore[attr-defined]  # a module made here has no attributes
    monkeypatch.setitem(sys.modules, "trackio", fake)
    return recorded


def test_every_line_is_sent_with_its_number(calls: list[tuple[Any, ...]]) -> None:
    with tracking.tracked("trackio", "mine", {"lr": 1}) as log:
        log({"update": 1, "reward": 0.5})
        log({"update": 2, "reward": 0.6})
    assert calls == [
        ("init", {"project": "worldline", "name": "mine", "config": {"lr": 1}}),
        ("log", {"reward": 0.5}, 1),
        ("log", {"reward": 0.6}, 2),
        ("finish",),
    ]


def test_a_run_that_fails_is_finished_and_one_that_never_began_is_not_announced(calls: list[tuple[Any, ...]]) -> None:
    with pytest.raises(ZeroDivisionError), tracking.tracked("trackio", "mine", {}) as log:
        log({"update": 1})
        raise ZeroDivisionError
    assert calls[-1] == ("finish",)
    calls.clear()
    with pytest.raises(InputError), tracking.tracked("trackio", "mine", {}):
        raise InputError("refused")
    assert calls == []


def test_a_missing_tracker_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    message = r"--track wandb: not installed: pip install 'worldline\[wandb\]'"
    with pytest.raises(InputError, match=message), tracking.tracked("wandb", "mine", {}):
        pass


def test_no_tracker_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with tracking.tracked(None, "mine", {}) as log:
        log({"update": 1})
