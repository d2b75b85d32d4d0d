"""A cloned logger: close to the policy that logged, blind to the task it predicts, and refused where it cannot be."""

import numpy as np
import pytest

from worldline.ope.clone import cloned_logprobs
from worldline.ope.log import RefusalError
from worldline.ope.text import TextLog
from worldline.types import Turn

ACTIONS = ("go left", "go right", "wait")
CHANCES = {"hall": (0.7, 0.2, 0.1), "attic": (0.1, 0.1, 0.8)}


def log(steps: int, seed: int = 0) -> tuple[TextLog, np.ndarray]:
    rng = np.random.default_rng(seed)
    rooms = rng.choice(list(CHANCES), size=steps)
    taken = tuple(ACTIONS[rng.choice(3, p=CHANCES[room])] for room in rooms)
    met = tuple(Turn("f", "find the key", f"you are in the {room}", ACTIONS, ()) for room in rooms)
    return TextLog(met, taken), np.array([CHANCES[room] for room in rooms])


def test_a_clone_has_the_loggers_probabilities() -> None:
    text, truth = log(1500)
    tasks = np.arange(1500) // 5
    cloned = cloned_logprobs(text, np.ones(1500, dtype=bool), tasks).reshape(-1, 3)
    np.testing.assert_allclose(np.exp(cloned).sum(axis=1), 1)
    assert np.abs(np.exp(cloned) - truth).max() < 0.08


def test_a_step_is_predicted_by_other_tasks() -> None:
    """Each task has a word of its own and always acts alike: a clone that had seen it would be sure."""
    rng = np.random.default_rng(0)
    words = [f"sign{k}" for k in range(40)]
    habit = rng.integers(0, 3, size=40)
    tasks = np.repeat(np.arange(40), 10)
    met = tuple(Turn("f", "g", words[task], ACTIONS, ()) for task in tasks)
    text = TextLog(met, tuple(ACTIONS[habit[task]] for task in tasks))
    cloned = cloned_logprobs(text, np.ones(400, dtype=bool), tasks).reshape(-1, 3)
    own = cloned[np.arange(400), habit[tasks]]
    assert own.mean() < np.log(0.55)


def test_only_its_own_steps_teach_a_clone() -> None:
    text, truth = log(1200)
    contrary = TextLog(text.turns, tuple("wait" if i % 2 else action for i, action in enumerate(text.taken)))
    own = np.arange(1200) % 2 == 0
    cloned = cloned_logprobs(contrary, own, np.arange(1200) // 4).reshape(-1, 3)
    assert np.abs(np.exp(cloned) - truth).max() < 0.12


def test_a_clone_is_refused_where_it_cannot_be_made() -> None:
    text, _ = log(40)
    with pytest.raises(RefusalError, match="20 steps of its logger, and there are 5"):
        cloned_logprobs(text, np.arange(40) < 5, np.arange(40))
    free = TextLog(tuple(Turn("f", "g", "o", None, ()) for _ in range(40)), text.taken)
    with pytest.raises(RefusalError, match="40 steps do not list them"):
        cloned_logprobs(free, np.ones(40, dtype=bool), np.arange(40))
