"""Which features an outcome has: levels of numbers, sentences that recur, nothing of the answer before it is given."""

from written_logs import Played, episode, state_after

from worldline.kernel.model import KernelModel
from worldline.kernel.outcome_features import forecast_features, outcome_features


def test_with_levels_the_features_tell_small_numbers_from_large_ones() -> None:
    """Of 12 and 14 the level is one, of 12 and 100 it is not; without levels only the words count."""
    log = [episode(f"e{n}", "A room.", [Played("sell", f"It is sold for {n}.")]) for n in (12, 14, 100)]
    model = KernelModel(log)
    state = state_after(model, log[0], 0)
    step = state.describe("sell")

    def added(price: int) -> set[int]:
        text = f"It is sold for {price}."
        without, levels = (
            outcome_features(state, step, text, model.recurring, levels=levels).tolist() for levels in (False, True)
        )
        return set(levels) - set(without)

    assert len(added(12)) == 4, "one for each number that is looked at"
    assert added(12) == added(14) != added(100)


def test_a_sentence_of_one_episode_teaches_nothing() -> None:
    log = [episode(f"e{n}", "A room.", [Played("look", f"You see it. Sign {'abcd'[n] * 4}.")]) for n in range(4)]
    model = KernelModel(log)
    assert model.recurring == {"you see it"}


def test_the_forecast_knows_the_step_and_not_its_answer() -> None:
    """Two logged steps with one past and one action, answered in two ways: one forecast, and two outcomes."""
    log = [
        episode(f"e{n}", "A room.", [Played("look", f"It is {n}."), Played("sell", text)])
        for n, text in ((1, "Yes."), (1, "No."))
    ]
    model = KernelModel(log)
    (first, second) = (state_after(model, logged, 1) for logged in log)
    step = first.describe("sell")
    assert forecast_features(first, step).tolist() == forecast_features(second, second.describe("sell")).tolist()
    assert forecast_features(first, first.describe("look")).tolist() != forecast_features(first, step).tolist()
    answered = [outcome_features(first, step, text, model.recurring).tolist() for text in ("Yes.", "No.")]
    assert answered[0] != answered[1]
