"""Formulas of numbers against a market whose arithmetic is written here."""

import random

import numpy as np
import pytest
from written_logs import Played, episode

from worldline.kernel.candidates import COMPUTED
from worldline.kernel.model import KernelModel
from worldline.kernel.number_model import FEWEST, NOTHING_COMPUTED, NumberModel
from worldline.kernel.numerals import first_readings, readings
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory

SCALE = 100.0


def shown(day: int, euros: int, apples: int, price: int) -> str:
    return f"Day {day}. You own {euros} euros and {apples} apples, worth {price} each."


def market(episodes: int, seed: int = 0) -> list[Trajectory]:
    """Days go by, a price is drawn every day; buying costs two, selling brings as much as apples times price."""
    rng, logged = random.Random(seed), []
    for number in range(episodes):
        day, euros, apples, price = 1, rng.randint(20, 90), rng.randint(1, 9), rng.randint(2, 9)
        start, steps = shown(day, euros, apples, price), []
        for _ in range(6):
            action = rng.choice(("buy one", "sell all", "wait"))
            before = euros
            if action == "buy one":
                euros, apples = euros - 2, apples + 1
            elif action == "sell all":
                euros, apples = euros + apples * price, 0
            day, price = day + 1, rng.randint(2, 9)
            mood = rng.choice(("The sun shines. ", "It rains. ", ""))
            steps.append(Played(action, mood + shown(day, euros, apples, price), (euros - before) / SCALE))
        logged.append(episode(f"m{number}", start, steps, task=f"t{number}"))
    return logged


@pytest.fixture(scope="module")
def table() -> StepTable:
    return StepTable.of(market(120))


@pytest.fixture(scope="module")
def numbers(table: StepTable) -> NumberModel:
    return NumberModel(table)


def rows_of(table: StepTable, action: str) -> list[int]:
    return [at for at, row in enumerate(table.rows) if row.action == action]


@pytest.mark.parametrize(
    ("action", "after"), [("wait", (5, 40, 7)), ("buy one", (5, 38, 8)), ("sell all", (5, 40 + 7 * 6, 0))]
)
def test_numbers_become_what_the_arithmetic_says(
    table: StepTable, numbers: NumberModel, action: str, after: tuple[int, int, int]
) -> None:
    """Whatever logged step they are adapted from; the price is chance, so that of the logged step stays."""
    computed = numbers.at(action, action, first_readings("", shown(4, 40, 7, 6)))
    for row in rows_of(table, action)[:20]:
        text = table.rows[row].answer
        price = int(readings(text)["worth", "each"])
        mood = text[: text.index("Day")]
        right = mood + shown(*after, price)
        assert (computed.adapted(text, row) or text) == right
        assert computed.judged(right)[0] < 0.1
        wrong = mood + shown(after[0] + 3, after[1] + 30, after[2] + 3, price)
        assert computed.judged(wrong)[0] > 5


def test_what_is_left_open_is_added() -> None:
    """A number that changes by chance around a formula changes as it did at the logged step."""
    rng = random.Random(3)
    logged = []
    for number in range(60):
        heat = rng.randint(30, 60)
        start, steps = f"It is {heat} degrees.", []
        for _ in range(4):
            heat += rng.choice((-1, 0, 1, 2))
            steps.append(Played("wait", f"It is {heat} degrees."))
        logged.append(episode(f"h{number}", start, steps, task=f"t{number}"))
    log = StepTable.of(logged)
    computed = NumberModel(log).at("wait", "wait", first_readings("", "It is 45 degrees."))
    for at, row in enumerate(log.rows[:40]):
        change = readings(row.answer)["is", "degrees"] - readings(row.observation)["is", "degrees"]
        assert (computed.adapted(row.answer, at) or row.answer) == f"It is {45 + change:.0f} degrees."


def test_no_number_leaves_the_range_of_the_log(table: StepTable, numbers: NumberModel) -> None:
    row = rows_of(table, "wait")[0]
    richest = max(readings(row.answer)["own", "euros"] for row in table.rows if row.action == "wait")
    text = numbers.at("wait", "wait", first_readings("", shown(4, 9000, 7, 6))).adapted(table.rows[row].answer, row)
    assert text is not None
    assert readings(text)["own", "euros"] == richest


def test_rewards_that_follow_numbers_are_computed(numbers: NumberModel) -> None:
    """The change of what is owned, from texts that no step of the log has together."""
    read = first_readings("", shown(4, 40, 7, 6))
    for sold in (10, 33, 57):
        earned = numbers.reward("sell all", "sell all", read, shown(5, 40 + sold, 0, 3))
        assert earned == pytest.approx(sold / SCALE, abs=0.01)
    assert numbers.reward("dance", "dance", read, shown(5, 40, 7, 3)) is None


def test_numbers_by_chance_and_numbers_of_names_have_no_formula() -> None:
    rng, logged = random.Random(0), []
    for number in range(80):
        steps = []
        for _ in range(4):
            door = rng.randint(1, 20)
            steps.append(Played(f"open door {door}", f"Behind door {door} are {rng.randint(0, 99)} sheep."))
        logged.append(episode(f"d{number}", "Doors.", steps, task=f"t{number}"))
    log = StepTable.of(logged)
    model = NumberModel(log)
    for at, row in enumerate(log.rows[:20]):
        assert model.at(log.phrases[at].skeleton, row.action, {}) is NOTHING_COMPUTED
    assert model.levels(log.phrases[0].skeleton, log.rows[0].answer) == ()


def test_few_steps_have_no_formula() -> None:
    few = StepTable.of(market(1))
    assert len(few.rows) < FEWEST
    assert NumberModel(few).at("wait", "wait", first_readings("", shown(4, 40, 7, 6))) is NOTHING_COMPUTED


def test_gaps_count_in_errors_of_the_formulas(numbers: NumberModel) -> None:
    answer = shown(5, 40, 7, 3)
    assert numbers.gap("wait", answer, answer) == 0
    near, far = (numbers.gap("wait", shown(5, euros, 7, 3), answer) for euros in (41, 90))
    assert 0 < near < far
    assert numbers.gap("wait", "Nothing.", answer) > far
    assert np.isnan(numbers.gap("dance", answer, answer))


def test_levels_tell_none_from_some(numbers: NumberModel) -> None:
    none, one, more = (numbers.levels("wait", shown(5, 40, apples, 3)) for apples in (0, 1, 9))
    assert len(none) == len(one) == len(more)
    assert len({none, one, more}) == 3


def test_computed_answers_are_candidates() -> None:
    model = KernelModel(market(120))
    for state, _, row in model.log.replay(0):
        considered = model.consider(state, row.action, own=0)
        kinds = considered.candidates.kinds
        assert (kinds == COMPUTED).any()
        day = readings(row.observation)["day", "."]
        for text, kind in zip(considered.candidates.texts, kinds.tolist(), strict=True):
            if kind == COMPUTED:
                assert readings(text)["day", "."] == day + 1
