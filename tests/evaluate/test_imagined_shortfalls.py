"""What is said against imagined values, and how far lost episodes may move them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from worldline.adwm.kernel_env import Support
from worldline.adwm.value import Imagined
from worldline.evaluate.imagined_cache import cached_imagination
from worldline.evaluate.imagined_shortfalls import lost_error, shortfalls


def imagined(unsupported: int, lost: float) -> Imagined:
    support = Support(Counter({"exact": 10}), unsupported)
    return Imagined(np.array([0.0, 1.0]), 0.0, support, [], lost, "KeyError: 'door'" if lost else "")


def test_what_is_supported_and_whole_has_nothing_against_it() -> None:
    assert shortfalls(imagined(2, 0.0)) == []
    assert lost_error(imagined(2, 0.0), np.array([0.0, 9.0])) == 0.0


def test_lost_episodes_are_told_and_may_be_worth_anything_that_the_log_has(tmp_path: Path) -> None:
    """Read from the cache, too, which keeps no episodes of most estimators."""
    whole = imagined(3, 0.01)
    kept = cached_imagination(lambda: whole, {"what": "this"}, tmp_path, with_episodes=False)
    for one in (whole, kept):
        assert shortfalls(one) == [
            "30% of the imagined steps are not supported by the log",
            "1.0% of the imagined episodes are lost: the policy failed there (KeyError: 'door')",
        ]
        assert lost_error(one, np.array([-1.0, 3.0])) == pytest.approx(0.04)
