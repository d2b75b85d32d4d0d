"""The forecast against written rules: what a step earns is known before it is answered, and no answer recurs."""

import random

import numpy as np
import pytest
from written_logs import Played, episode

from worldline.kernel.answers import StepRequest
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.fitting import fit_once
from worldline.kernel.forecast import Forecast, ForecastExercise
from worldline.kernel.outcome_features import FORECAST_BUCKETS
from worldline.types import Trajectory

COLOURS = ("red", "blue", "green")
PAID = {("open the left box", "red"): 1.0, ("open the right box", "blue"): 1.0, ("open the middle box", "green"): 1.0}


def test_chances_are_those_of_the_rule() -> None:
    """A feature of two makes an outcome likely by .9, the other one by .2; a third is in every step."""
    rng = np.random.default_rng(0)
    exercises = []
    for number in range(2000):
        kind = int(rng.integers(2))
        right = int(rng.random() < (0.9, 0.2)[kind])
        exercises.append(ForecastExercise(number % 2, np.array([1, 10 + kind]), right, 1.0))
    forecast = Forecast(2)
    forecast.fit(exercises)
    for kind, chance in enumerate((0.9, 0.2)):
        for fold in (-1, 0, 1):
            log_chances = forecast.log_chances(np.array([1, 10 + kind]), fold)
            assert np.exp(log_chances) == pytest.approx([1 - chance, chance], abs=0.04)


def test_a_step_is_not_judged_by_what_has_seen_it() -> None:
    """Each step has a feature of its own, and outcomes are chance: the judgement of the other half knows nothing."""
    rng = np.random.default_rng(1)
    exercises = [ForecastExercise(n % 2, np.array([1, 2 + n]), int(rng.integers(2)), 1.0) for n in range(400)]
    forecast = Forecast(2)
    forecast.fit(exercises)
    unseen = [forecast.log_chances(one.features, one.fold)[one.right] for one in exercises]
    assert np.mean(unseen) == pytest.approx(np.log(0.5), abs=0.03)


def test_one_outcome_or_one_half_teaches_nothing() -> None:
    one_class, one_fold = Forecast(1), Forecast(2)
    one_class.fit([ForecastExercise(n % 2, np.array([1]), 0, 1.0) for n in range(10)])
    one_fold.fit([ForecastExercise(0, np.array([1]), n % 2, 1.0) for n in range(10)])
    assert one_class.log_chances(np.array([1])).tolist() == [0.0]
    assert np.exp(one_fold.log_chances(np.array([1]))) == pytest.approx([0.5, 0.5])


def test_features_are_numbers_of_the_table() -> None:
    model, _ = fit_once([boxes(random.Random(0), n) for n in range(40)], steps=80)
    state = EpisodeState(model.log.language, "new", "", "You stand in a hall.", None)
    (considered,) = model.consider_requests([StepRequest(state, "look", 0.5, 0.5, 0)])
    assert len(considered.before) > 0
    assert (considered.before > 0).all() and (considered.before < FORECAST_BUCKETS).all()
    assert len(considered.outcomes) == len(considered.candidates)


def boxes(rng: random.Random, number: int) -> Trajectory:
    """A look shows a colour among words that never recur; then a box is opened, which has a prize where the colour
    says so. What is answered does not say whether there was one, and never recurs."""
    colour, action = rng.choice(COLOURS), rng.choice([action for action, _ in PAID])
    noise = [f"w{rng.randrange(10**6)}" for _ in range(4)]
    won = PAID.get((action, colour), 0.0)
    steps = [
        Played("look", f"There is {noise[0]} beside a {colour} lamp of {noise[1]}."),
        Played(action, f"It creaks like {noise[2]} and {noise[3]}.", won),
    ]
    return episode(f"e{number}", "You stand in a hall.", steps, task=f"t{number}", policy="ab"[number % 2])


def test_what_a_step_earns_follows_from_what_was_shown_and_not_from_a_like_answer() -> None:
    rng = random.Random(2)
    model, _ = fit_once([boxes(rng, n) for n in range(240)], steps=480)
    for colour in COLOURS:
        for action, _ in PAID:
            state = EpisodeState(model.log.language, "new", "", "You stand in a hall.", None)
            look = state.describe("look")
            state.advance(look, f"There is w1 beside a {colour} lamp of w2.", 0.0, None)
            draws = [(at + 0.5) / 20 for at in range(20)]
            given = model.answer([StepRequest(state, action, draw, 0.5, 1) for draw in draws])
            mean = float(np.mean([one.mean_reward for one in given]))
            assert mean == pytest.approx(PAID.get((action, colour), 0.0), abs=0.3), (colour, action)
