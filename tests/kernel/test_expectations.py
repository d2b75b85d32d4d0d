"""What is expected of an answer against worlds whose numbers, rewards and words are known to follow from the past."""

import random

import numpy as np
from written_logs import LOST as BAD
from written_logs import PUPILS, Played, episode, lessons
from written_logs import UNDERSTOOD as GOOD

from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.expectations import TARGETS, Expectations, circumstances
from worldline.kernel.step_table import StepTable, fold_of
from worldline.types import Trajectory


def _taught(log: StepTable, answers: list[str]) -> EpisodeState:
    state = EpisodeState(log.language, "new", "", "Lena sits down.", None)
    for answer in answers:
        state.advance(state.describe("explain it"), answer, 0.0, None)
    return state


def _ratios(expectations: Expectations, state: EpisodeState, marks: list[int]) -> np.ndarray:
    texts, rewards = [f"The mark is {mark} of 75." for mark in marks], [mark / 75 for mark in marks]
    return expectations.log_ratios(state, state.describe("test"), texts, rewards, -1)


def test_a_number_and_a_reward_follow_from_words_heard_long_before() -> None:
    log = StepTable.of(lessons())
    expectations = Expectations(log)
    marks = [20, 30, 40, 50]
    for good in range(4):  # in words that no logged lesson has in this order
        state = _taught(log, [f"Lena: {text}" for text in (*GOOD[:good], *BAD[: 3 - good])])
        ratios = _ratios(expectations, state, marks)
        for target in ("number", "reward"):
            column = ratios[:, TARGETS.index(target)]
            assert column.argmax() == good
            assert column[good] - np.delete(column, good).max() > 1


def test_numbers_and_rewards_leave_their_wording_as_likely_as_it_was() -> None:
    log = StepTable.of(lessons())
    state = _taught(log, [f"Lena: {text}" for text in GOOD])
    ratios = _ratios(Expectations(log), state, [20, 50, 50, 40, 30, 30])
    for target in ("number", "reward"):
        column = ratios[:, TARGETS.index(target)].astype(float)
        assert column.any()
        assert abs(np.exp(column).mean() - 1) < 1e-5


def test_nothing_is_expected_where_nothing_follows() -> None:
    log = StepTable.of(lessons(marked=False))
    state = _taught(log, [f"Lena: {text}" for text in GOOD])
    assert not _ratios(Expectations(log), state, [20, 40, 60]).any()


def _moods(episodes: int = 200) -> list[Trajectory]:
    """Who has been praised answers kindly, in one of three ways; who has not, does not."""
    rng = random.Random(1)
    out = []
    for number in range(episodes):
        name, praised = rng.choice(PUPILS), rng.random() < 0.5
        first = Played("praise" if praised else "scold", f"{name} looks at you.")
        others = [Played("wait", f"{name} waits.") for _ in range(rng.randint(0, 3))]
        last = Played("ask", f"{name}: {rng.choice(GOOD if praised else BAD)}", 0.0)
        out.append(episode(f"m{number}", f"{name} comes in.", [first, *others, last], task=f"t{number}"))
    return out


def test_words_follow_from_what_was_done_whoever_says_them() -> None:
    log = StepTable.of(_moods())
    expectations = Expectations(log)
    for deed, expected in (("praise", GOOD), ("scold", BAD)):
        state = EpisodeState(log.language, "new", "", "Lena comes in.", None)
        for action, answer in ((deed, "Lena looks at you."), ("wait", "Lena waits.")):
            state.advance(state.describe(action), answer, 0.0, None)
        texts = [f"Lena: {text}" for text in (*GOOD, *BAD)]
        words = expectations.log_ratios(state, state.describe("ask"), texts, [0.0] * len(texts), -1)[:, 0]
        kind = np.array([text.partition(": ")[2] in expected for text in texts])
        assert words[kind].min() > words[~kind].max()


def _calls(episodes: int = 160) -> list[Trajectory]:
    """Who asks for the number of an order gets the refund; who guesses one, always the same, does not."""
    rng = random.Random(2)
    out = []
    for number in range(episodes):
        order, asks = rng.randint(1000, 9999), rng.random() < 0.6
        first = [Played("ask", f"It is {order}.")] if asks else [Played("wait", "Well?")]
        last = Played(f"refund {order if asks else 1234}", rng.choice(GOOD if asks else BAD))
        out.append(episode(f"c{number}", "Hello.", [*first, last], task=f"t{number}"))
    return out


def test_a_guess_is_answered_as_guesses_are_whatever_is_guessed() -> None:
    log = StepTable.of(_calls())
    expectations = Expectations(log)
    state = EpisodeState(log.language, "new", "", "Hello.", None)
    state.advance(state.describe("wait"), "Well?", 0.0, None)
    for guess in (1000, 4321, 9876):
        words = expectations.log_ratios(state, state.describe(f"refund {guess}"), [*GOOD, *BAD], [0.0] * 6, -1)[:, 0]
        assert words[3:].min() - words[:3].max() > 1


def test_a_logged_step_is_judged_by_what_has_not_seen_it() -> None:
    """Other rewards in the half of the log that a lesson is in change nothing; in the other half, they do."""
    log, own = lessons(), 7
    marks = [30, 40]

    def judged(episodes: list[Trajectory]) -> np.ndarray:
        table = StepTable.of(episodes)
        state, texts = _taught(table, [f"Lena: {GOOD[0]}"]), [f"The mark is {mark} of 75." for mark in marks]
        step = state.describe("test")
        return Expectations(table).log_ratios(state, step, texts, [mark / 75 for mark in marks], own)[:, 2]

    def otherwise_paid(fold: int) -> list[Trajectory]:
        """The same log, in which half of it earned other rewards."""
        out = []
        for number, one in enumerate(log):
            last = one.steps[-1]
            changed = last.model_copy(update={"reward": last.reward + 0.02 * (number % 3 - 1)})
            same = fold_of(number) != fold
            out.append(one if same else one.model_copy(update={"steps": (*one.steps[:-1], changed)}))
        return out

    before = judged(log)
    assert before.any()
    np.testing.assert_array_equal(judged(otherwise_paid(fold_of(own))), before)
    assert (judged(otherwise_paid(1 - fold_of(own))) != before).all()


def test_circumstances_have_counts_numbers_and_words() -> None:
    steps = [Played("open door 2", "It shows 7 coins."), Played("wait", "No.")]
    log = StepTable.of([episode(f"e{number}", "A room, 3 doors.", steps) for number in range(3)])
    state = EpisodeState(log.language, "t", "", "A room, 3 doors.", None)
    state.advance(state.describe("open door 2"), "It shows 7 coins.", 0.5, None)
    here = circumstances(state, state.describe("wait"))
    assert (here["step"], here["earned"], here["did open door 2"]) == (1.0, 0.5, 1.0)
    assert (here["heard coins"], here["read shows coins"], here["first room"]) == (1.0, 7.0, 1.0)
    assert [value for name, value in here.items() if name.startswith("last ")] == [2.0]
