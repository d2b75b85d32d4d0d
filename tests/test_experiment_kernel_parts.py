"""The experiment on the parts of `wm`: every stand-in stands where the model looks, and nothing is left of one."""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from kernel_parts import shows
from kernel_switches import PARTS, Part, signs_of, switched_off
from written_logs import Played, episode, lessons, shelves, walks

from worldline.kernel import gate, lists, outcome, wordings
from worldline.kernel.fitting import fit_once
from worldline.kernel.replay import replayed_returns
from worldline.types import Trajectory

SEAMS = {(swap[0], swap[1]) for part in PARTS.values() for swap in part.off}
OFF_AMONG_SHELVES = ("list model", "kind: renamed", "features: agreeing")
OFF_ON_WALKS = ("wordings", "paths")


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for module in (gate, lists, outcome, wordings):
        monkeypatch.setattr(module, "_STEPS", 10)
    monkeypatch.setattr(gate, "_EVERY", 5)
    yield
    torch.set_num_threads(threads)


def measured(episodes: Sequence[Trajectory]) -> tuple[dict[str, float], dict[str, float], list[float]]:
    """Signs and figures of a brief fit, and the returns of some of the log's actions in it."""
    model, figures = fit_once(episodes, seed=0, steps=40)
    return signs_of(model), figures, replayed_returns(model, episodes[:3], [*range(3)], 0).tolist()


def bids() -> list[Trajectory]:
    return [
        episode(f"b{at}", "Guess.", [Played("say 40", "Higher."), Played(f"say {60 + at}", "Lower.", float(at))])
        for at in range(4)
    ]


def test_every_stand_in_stands_where_the_model_looks() -> None:
    called: Counter[tuple[Any, str]] = Counter()

    def spied(seam: tuple[Any, str], original: Any) -> Any:
        @functools.wraps(original)
        def spy(*given: Any, **named: Any) -> Any:
            called[seam] += 1
            return original(*given, **named)

        return spy

    functions = {(owner, name) for owner, name in SEAMS if callable(vars(owner)[name])}
    with ExitStack() as stack:
        for seam in functions:
            stack.enter_context(switched_off(Part(((*seam, functools.partial(spied, seam)),))))
        for episodes in (shelves(6, seed=1), lessons(30), bids()):
            measured(episodes)
    assert functions == called.keys()


@pytest.mark.parametrize(("names", "episodes"), [(OFF_AMONG_SHELVES, shelves(6, seed=1)), (OFF_ON_WALKS, walks(8, 1))])
def test_without_a_part_nothing_shows_it_and_then_all_is_as_before(
    names: tuple[str, ...], episodes: list[Trajectory]
) -> None:
    full = measured(episodes)
    for name in names:
        assert shows(PARTS[name], {"signs": full[0]}), name
        with switched_off(PARTS[name]):
            signs, *of_part = measured(episodes)
        assert not any(signs[sign] for sign in PARTS[name].signs), name
        assert of_part != list(full[1:]), name
    assert measured(episodes) == full
