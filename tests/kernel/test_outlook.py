"""The outlook against chances that are known: what is accepted depends on a share of the price, or on who asks."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from kernel_fits import fewer_updates
from written_logs import Played, episode

from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.language import wording
from worldline.kernel.outcome import outcome_of
from worldline.kernel.outcome_classes import StepOutcome
from worldline.kernel.outlook import SORTS, Outlook, OutlookExercise, Prospects, summary
from worldline.kernel.step_table import StepTable, replay
from worldline.types import Trajectory

YES, NO = StepOutcome(1.0, True, False), StepOutcome(0.0, True, False)
POLICIES = ("a", "b", "c")
Chance = Callable[[str, float], float]


def _bids(chance: Chance, episodes: int = 900) -> list[Trajectory]:
    """One bid for a price of its own; `chance` is that of a policy's bid of this share of the price."""
    rng = random.Random(0)
    out = []
    for number in range(episodes):
        policy, price = POLICIES[number % 3], rng.randint(100, 900)
        bid = rng.randint(20, price)
        accepted = rng.random() < chance(policy, bid / price)
        step = Played(f"bid {bid}", "Yes, sold." if accepted else "No, never.", float(accepted))
        out.append(episode(f"e{number}", f"It costs {price}.", [step], task=f"t{number}", policy=policy))
    return out


def _fitted(episodes: list[Trajectory]) -> tuple[StepTable, Outlook]:
    log = StepTable.of(episodes)
    outlook, exercises = Outlook(log), []
    for number, one in enumerate(episodes):
        for state, step, row in replay(log.language, one, number):
            prospects = Prospects(summary(state, step), np.zeros(1, np.int64), outlook.group(number))
            right = outlook.sort_of(outcome_of(row), wording(row.answer, step.phrase))
            exercises.append(OutlookExercise(number, prospects, right, 1.0))
    with fewer_updates():
        outlook.fit(exercises, frozenset(range(0, len(episodes), 7)), seed=0)
    return log, outlook


def _accepted(log: StepTable, outlook: Outlook, bid: int, price: int, group: int = -1) -> float:
    state = EpisodeState(log.language, "new", "", f"It costs {price}.", None)
    sorts = np.array([outlook.sort_of(YES, "yes, sold."), outlook.sort_of(NO, "no, never.")])
    (log_chances,) = outlook.log_chances([Prospects(summary(state, state.describe(f"bid {bid}")), sorts, group)])
    assert np.exp(log_chances).sum() == pytest.approx(1.0, abs=1e-3)
    return float(np.exp(log_chances[0]))


def test_chances_by_a_share_of_the_price_are_learned_from_prices_that_never_return() -> None:
    log, outlook = _fitted(_bids(lambda policy, share: 0.1 if share < 0.5 else 0.8))
    for price in (150, 333, 808):
        assert _accepted(log, outlook, round(0.25 * price), price) == pytest.approx(0.1, abs=0.12)
        assert _accepted(log, outlook, round(0.85 * price), price) == pytest.approx(0.8, abs=0.12)


def test_a_policy_s_steps_are_judged_by_the_network_that_has_not_seen_it() -> None:
    episodes = _bids(lambda policy, share: 0.95 if policy == "b" else 0.05)
    log, outlook = _fitted(episodes)
    without_b = outlook.group(next(at for at, one in enumerate(episodes) if one.policy == "b"))
    assert _accepted(log, outlook, 100, 300, without_b) == pytest.approx(0.05, abs=0.08)
    others = {outlook.group(at) for at in range(len(episodes))} - {without_b}
    assert all(_accepted(log, outlook, 100, 300, group) > 0.3 for group in others)


def test_frequent_wordings_are_sorts_of_their_own_and_the_rest_go_by_outcome() -> None:
    outlook = Outlook(StepTable.of(_bids(lambda policy, share: 0.5, 60)))
    yes, no = outlook.sort_of(YES, "yes, sold."), outlook.sort_of(NO, "no, never.")
    assert len({yes, no}) == 2
    assert max(yes, no) < SORTS
    rare = outlook.sort_of(YES, "fine."), outlook.sort_of(NO, "fine.")
    assert min(rare) >= SORTS
    assert rare[0] != rare[1]
    kinds = outlook.kinds(np.array([0, -1]), [0.0])
    assert outlook.sorts_of(kinds[:1], np.zeros(1, np.int64), ["fine."])[0] in rare
    late = outlook.kinds(np.array([-500]), [0.0] * 500)
    assert late.tolist() == kinds[1:].tolist(), "an episode may be longer than the log"


def test_an_outlook_that_was_never_fitted_prefers_no_sort() -> None:
    log = StepTable.of(_bids(lambda policy, share: 0.5, 30))
    outlook = Outlook(log)
    state = EpisodeState(log.language, "new", "", "It costs 200.", None)
    prospects = Prospects(summary(state, state.describe("bid 20")), np.array([0, 1, SORTS]), -1)
    (log_chances,) = outlook.log_chances([prospects])
    assert np.ptp(log_chances) == pytest.approx(0.0)
