"""What an environment of the user's own returns is checked: one line that names the class, and what is expected."""

import math
from typing import Any

import numpy as np
import pytest

from worldline.envs.custom_environment import CustomEnvironment
from worldline.types import InputError, LazyActions


def wrapped(inner: Any) -> CustomEnvironment:
    return CustomEnvironment(inner, seeded=True)


def ended(**info: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
    return "a", 1.0, True, False, info


@pytest.mark.parametrize(
    ("opening", "answer", "line"),
    [
        ("text", None, "Shapes.reset must return (observation, info), it returned a str"),
        (
            ("text", {}),
            ("a", 1.0, True),
            "Shapes.step must return (observation, reward, terminated, truncated, info)",
        ),
        (("text", {}), (7, 1.0, True, False, {}), "Shapes.step returned an int as observation: it must be text"),
        (("text", {}), ("a", "much", True, False, {}), "Shapes.step returned the reward 'much': no number"),
        (("text", {}), ("a", 1.0, True, False, None), "Shapes.step returned None as info: it must be a dict"),
        (("text", {}), ("a", math.nan, True, False, {}), "Shapes.step returned the reward nan: it must be a finite"),
        (("text", {}), ("a", -math.inf, True, False, {}), "Shapes.step returned the reward -inf: it must be a finite"),
        (("text", {}), ("a", -1e308, True, False, {}), "Shapes.step returned the reward -1e+308: at most 1e+100"),
        (
            ("text", {"admissible": "go north"}),
            None,
            """Shapes.reset returned info["admissible"] = 'go north': it must be a list of texts, or None""",
        ),
        (("text", {"admissible": [1, 2]}), None, 'info["admissible"] = [1, 2]: it must be a list of texts'),
        (("text", {"admissible": {"go"}}), None, "it must be a list of texts"),  # a set has no order of its own
        (("text", {"goal": 3}), None, 'Shapes.reset returned info["goal"] = 3: it must be text'),
        (("text", {}), ended(won=2), 'Shapes.step returned info["won"] = 2: it must be True or False, or None'),
        (("text", {}), ended(won="no"), """info["won"] = 'no': it must be True or False"""),
        (("text", {}), ended(valid=None), 'info["valid"] = None: it must be True or False'),
        (("text", {}), ended(score="high"), """info["score"] = 'high': it must be a finite number, or None"""),
        (("text", {}), ended(score=math.nan), 'info["score"] = nan: it must be a finite number, or None'),
    ],
)
def test_wrong_shapes_are_told_in_the_environments_own_words(opening: Any, answer: Any, line: str) -> None:
    class Shapes:
        def reset(self, *, seed: int | None = None) -> Any:
            return opening

        def step(self, action: str) -> Any:
            return answer

    environment = wrapped(Shapes())
    with pytest.raises(InputError) as caught:
        environment.reset(task="0")
        environment.step("x")
    assert line in str(caught.value)


def test_whatever_a_log_can_hold_passes() -> None:
    def boom() -> list[str]:
        raise AssertionError("computed")

    infos: list[dict[str, Any]] = [
        {"admissible": ("up", np.str_("down")), "won": np.bool_(True), "valid": 1, "score": np.float32(0.5)},
        {"admissible": None, "won": None, "valid": False, "score": None},
        {"admissible": LazyActions(boom), "won": 0, "score": 3},
        {"admissible": [], "of my own": object()},
    ]

    class Talkative:
        def reset(self, *, seed: int | None = None) -> Any:
            return "text", infos[0]

        def step(self, action: str) -> Any:
            return "a", np.float64(1.0), np.bool_(True), 0, infos[int(action)]

    environment = wrapped(Talkative())
    assert environment.reset(task="0")[1] == {"task_id": "0", "goal": "", **infos[0]}
    for number, info in enumerate(infos):
        assert environment.step(str(number)) == ("a", 1.0, True, False, info)


def test_wrong_signatures_are_shown_the_right_ones() -> None:
    class Bare:
        def reset(self) -> Any:
            return "text", {}

        def step(self) -> Any:
            return ended()

    environment = wrapped(Bare())
    with pytest.raises(InputError, match=r"Bare.reset must be `def reset\(self, \*, seed=None, task=None\)`: .*'seed'"):
        environment.reset(task="0")
    with pytest.raises(InputError, match=r"Bare.step must be `def step\(self, action\)`: .*takes 1 positional"):
        environment.step("x")


def test_a_type_error_within_is_the_environments_own() -> None:
    class Miscounts:
        def reset(self, *, seed: int | None = None) -> Any:
            return len(seed)  # type: ignore[arg-type]  # the mistake

        def step(self, action: str) -> Any:
            return len(3)  # type: ignore[arg-type]  # the mistake

    environment = wrapped(Miscounts())
    with pytest.raises(TypeError, match="has no len"):
        environment.reset(task="0")
    with pytest.raises(TypeError, match="has no len"):
        environment.step("x")
