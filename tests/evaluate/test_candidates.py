"""What candidates say about a log: exact mixing, log-probs from elsewhere, the cache."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from goal_seekers import GoalSeeker

from worldline.evaluate import candidates
from worldline.evaluate.candidates import Scores, cached, named, target_log
from worldline.ope.log import RaggedLog, ragged_log
from worldline.ope.text import TextLog, text_log
from worldline.policies import mix
from worldline.types import InputError, Policy, Step, Trajectory, Turn


def silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def score(policy: Policy, text: TextLog) -> Scores | None:
    """Log-probs that are computed, not read from a cache."""
    return cached(lambda: policy, None, text, None, silent)


@pytest.fixture(scope="module")
def few(episodes: list[Trajectory]) -> list[Trajectory]:
    return episodes[:12]


@pytest.fixture(scope="module")
def log(few: list[Trajectory]) -> RaggedLog:
    return ragged_log(few)


@pytest.fixture(scope="module")
def text(few: list[Trajectory]) -> TextLog:
    return text_log(few)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_mixing_is_that_of_the_policies(text: TextLog, epsilon: float) -> None:
    seeker = GoalSeeker(1.0)
    target = target_log(score(seeker, text), epsilon, lambda: text)
    assert target is not None
    assert target.choices is not None
    direct = mix(seeker, epsilon).logprobs(text.turns, text.options)  # type: ignore[attr-defined]  # mix of a policy that scores can score
    np.testing.assert_allclose(target.choices.logprobs, np.concatenate(direct), atol=1e-12)
    own = mix(seeker, epsilon).logprobs(text.turns, [[a] for a in text.taken])  # type: ignore[attr-defined]  # mix of a policy that scores can score
    np.testing.assert_allclose(target.logprobs, np.concatenate(own), atol=1e-12)


def test_the_loggers_own_log_probs_come_back(log: RaggedLog, text: TextLog) -> None:
    """Turns rebuilt from the log are the turns the agent met: its log-probs are those it logged."""
    target = target_log(score(GoalSeeker(0.6), text), 0.0, lambda: text)
    assert target is not None
    np.testing.assert_allclose(target.logprobs, log.behaviour, atol=1e-12)


class Faulty(GoalSeeker):
    """A goal seeker whose log-probs are spoiled by a function of the rows."""

    def __init__(self, spoil: Callable[[list[Any]], Any]) -> None:
        super().__init__(1.0)
        self._spoil = spoil

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> Any:
        return self._spoil(list(super().logprobs(turns, actions)))


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda rows: {}["no"], "failed: KeyError: 'no'"),
        (lambda rows: rows[:-1], r"gave \d+ rows for \d+ turns"),
        (lambda rows: None, r"gave a NoneType for \d+ turns"),
        (lambda rows: [row[:-1] for row in rows], r"gave \d+ log-probabilities for the \d+ actions of a turn"),
        (lambda rows: [np.append(rows[0], -9.0), rows[1][:-1], *rows[2:]], r"log-probabilities for the \d+ actions"),
        (lambda rows: [["a"] * len(row) for row in rows], "as log-probabilities"),
    ],
)
def test_log_probs_that_are_not_one_per_action_are_refused(
    text: TextLog, spoil: Callable[[list[Any]], Any], line: str
) -> None:
    """Also where one row too long and one too short have the right length together."""
    with pytest.raises(InputError, match=f"policy '.*' .*{line}.*must return"):
        score(Faulty(spoil), text)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda row: row * np.nan, "gave nan as the log-probability of '.*': it must be at most 0"),
        (lambda row: row + 10.0, r"gave \S+ as the log-probability of '.*': it must be at most 0"),
        (lambda row: row * 0.0, r"gave the \d+ actions of a turn probabilities that sum to \d+: it must be at most 1"),
    ],
)
def test_what_is_no_log_probability_is_refused(text: TextLog, spoil: Callable[[Any], Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        score(Faulty(lambda rows: [spoil(np.maximum(row, -9.0)) for row in rows]), text)


def test_an_action_outside_the_admissible_set() -> None:
    step = Step(observation="o", admissible=("look", "wait"), action="fly", logprob=-1.0)
    odd = text_log([Trajectory(id="x", env="e", task_id="t", policy="p", steps=(step,))])
    assert odd.options == (("look", "wait", "fly"),)
    uniform = target_log(None, 1.0, lambda: odd)
    assert uniform is not None
    assert np.isneginf(uniform.logprobs).all()
    assert uniform.choices is not None
    np.testing.assert_allclose(np.exp(uniform.choices.logprobs), [0.5, 0.5, 0.0])


def test_epsilon_needs_the_admissible_actions() -> None:
    step = Step(observation="o", action="answer", logprob=-1.0)
    free = text_log([Trajectory(id="x", env="e", task_id="t", policy="p", steps=(step,))])
    with pytest.raises(InputError, match="column 'admissible'"):
        target_log(None, 1.0, lambda: free)


def test_a_policy_that_cannot_be_scored_has_no_target(text: TextLog) -> None:
    class Mute:
        name = "mute"

        def act(self, turns: object) -> list[object]:
            return []

    assert score(Mute(), text) is None  # type: ignore[arg-type]  # no scorer: that is tested
    assert target_log(None, 0.2, lambda: text) is None


class Counting(GoalSeeker):
    """Counts the turns it scores; fails at the batch that `fails_at` names, counted from 1."""

    def __init__(self, zeal: float = 1.0, fails_at: int = 0) -> None:
        super().__init__(zeal)
        self.turns, self.batches, self.fails_at = 0, 0, fails_at

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[np.ndarray]:
        self.batches += 1
        if self.batches == self.fails_at:
            raise KeyboardInterrupt
        self.turns += len(turns)
        return super().logprobs(turns, actions)


def test_a_model_is_asked_once(text: TextLog, tmp_path: Path) -> None:
    model = Counting()
    first = cached(lambda: model, "one", text, tmp_path, silent)
    assert model.turns == len(text.turns)
    second = cached(lambda: model, "one", text, tmp_path, silent)
    assert model.turns == len(text.turns)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.options, second.options)
    np.testing.assert_array_equal(first.logged, second.logged)
    cached(lambda: model, "another", text, tmp_path, silent)
    assert model.turns == 2 * len(text.turns)


def test_an_interrupted_model_is_asked_for_the_rest_only(
    text: TextLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "BATCH", 10)
    whole = score(GoalSeeker(1.0), text)
    interrupted, again = Counting(fails_at=4), Counting()
    with pytest.raises(KeyboardInterrupt):
        cached(lambda: interrupted, "one", text, tmp_path, silent)
    assert interrupted.turns == 30
    scores = cached(lambda: again, "one", text, tmp_path, silent)
    assert again.turns == len(text.turns) - 30
    assert scores is not None
    assert whole is not None
    np.testing.assert_array_equal(scores.options, whole.options)


def test_log_probs_of_another_log_are_not_reused(tmp_path: Path) -> None:
    """The same observations, goals and admissible actions; what was done before the last step differs."""

    def log_of(action: str) -> TextLog:
        steps = [Step(observation="o", admissible=("look", "wait"), action=a, logprob=-1.0) for a in (action, "look")]
        return text_log([Trajectory(id="x", env="e", task_id="t", policy="p", steps=tuple(steps))])

    class AfterWaiting(GoalSeeker):
        def probabilities(self, turn: Turn) -> Mapping[str, float]:
            waited = any(past.action == "wait" for past in turn.history)
            return {"look": 0.9 if waited else 0.2, "wait": 0.1 if waited else 0.8}

    for action in ("look", "wait"):
        log = log_of(action)
        kept = cached(lambda: AfterWaiting(1.0), "one", log, tmp_path, silent)
        direct = score(AfterWaiting(1.0), log)
        assert kept is not None
        assert direct is not None
        np.testing.assert_array_equal(kept.options, direct.options)


def test_a_corrupt_cache_is_named(text: TextLog, tmp_path: Path) -> None:
    cached(lambda: GoalSeeker(1.0), "one", text, tmp_path, silent)
    (path,) = tmp_path.glob("*.npy")
    whole = path.read_bytes()
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    for content in (b"", whole[:-8], whole[:20], pickled.getvalue()):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"{path.name}: not a cache of log-probs") as error:
            cached(lambda: GoalSeeker(1.0), "one", text, tmp_path, silent)
        assert "delete it" in str(error.value)


def test_names() -> None:
    assert named(("a=hf:x", "expert", "hf:/m=1/n"), "--policy") == {
        "a": "hf:x",
        "expert": "expert",
        "hf:/m=1/n": "hf:/m=1/n",
    }
    with pytest.raises(InputError, match="two policies are called 'a'"):
        named(("a=random", "a=expert"), "--policy")
    with pytest.raises(InputError, match="NAME=SPEC"):
        named(("a=",), "--policy")
