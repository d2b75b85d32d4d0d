"""Which estimator is recommended, on certificates and estimates made for the purpose."""

from dataclasses import replace

import numpy as np
import pytest

from worldline.evaluate.loggers import what_gives_trials
from worldline.evaluate.recommendation import episodes_needed, expected_error, recommend
from worldline.evaluate.result import Recommendation
from worldline.evaluate.result_parts import Estimate, PolicyResult
from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial
from worldline.ope.diagnostics import Diagnostics
from worldline.ope.intervals import Interval, interval


def sound(value: float, error: float = 0.1) -> Estimate:
    return Estimate(value=value, low=None, high=None, n=9, error=error)


def flagged(value: float, error: float = 0.1) -> Estimate:
    return sound(value, error).model_copy(update={"flag": "2.0 effective episodes"})


def candidate(name: str = "a", **estimates: Estimate) -> PolicyResult:
    return PolicyResult(name=name, estimates={"naive": sound(0.1, 0.01), **estimates})


def trial(half: float | None = None, **errors: float) -> Trial:
    limits = {n: Interval(e, None if half is None else e - half, None, 9) for n, e in errors.items()}
    return Trial("logger", ("other",), 0.0, limits, {})


def test_an_estimator_that_ignores_the_policy_is_not_recommended() -> None:
    best = recommend(["naive", "wis"], [], [candidate(wis=sound(0.3))])
    assert isinstance(best, Recommendation)
    assert (best.estimator, best.policy) == ("wis", "a")
    none = recommend(["naive"], [], [candidate()])
    assert none == "no estimator that depends on the policy values all candidates and tells them apart"


def test_the_smallest_expected_error_is_recommended_with_its_certificate() -> None:
    one = candidate(wis=sound(-0.9, 0.03), dr=sound(9.0, 0.2))
    two = candidate("b", wis=sound(-0.2, 0.04), dr=sound(1.0, 0.2)).model_copy(update={"epsilon": 0.5})
    assert expected_error("wis", [one, two]) == ((0.03**2 + 0.04**2) / 2) ** 0.5
    best = recommend(["wis", "dr"], [trial(wis=0.1, dr=0.5), trial(wis=0.3, dr=0.5)], [one, two])
    reason = "smallest expected error on this log, 0.035; next is dr, 0.200; on 2 of the log's policies 0.200 ± 0.100"
    assert best == Recommendation(estimator="wis", policy="b@0.5", reason=reason)


def test_a_flagged_estimator_is_recommended_only_where_all_are() -> None:
    one, two = candidate(wis=sound(0.2, 0.01), dr=sound(0.2)), candidate("b", wis=flagged(0.3, 0.01), dr=sound(0.4))
    best = recommend(["naive", "wis", "dr"], [], [one, two])
    assert isinstance(best, Recommendation)
    assert best.estimator == "dr"
    assert best.reason == "the only estimator without a flag, expected error 0.100"
    other = candidate("b", wis=flagged(0.3, 0.01), dr=flagged(0.4))
    best = recommend(["naive", "wis", "dr"], [trial(wis=0.02, dr=0.02)], [one, other])
    assert isinstance(best, Recommendation)
    assert best.estimator == "wis"
    assert best.reason.endswith("it is flagged for some candidate, and so is every other that may be recommended")


def test_an_estimator_that_was_tried_is_preferred_to_one_that_was_not() -> None:
    lacking = Diagnostics(100, 50, step_weight=0.8, step_weight_error=0.02)
    policies = [
        candidate(name, wis=flagged(value), dr=flagged(value)).model_copy(update={"diagnostics": lacking})
        for name, value in (("a", 0.2), ("b", 0.3))
    ]
    best = recommend(["naive", "wis", "dr"], [trial(9.0, naive=0.3, dr=0.01)] * 2, policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "dr"


def test_one_that_missed_both_trials_does_not_win_by_its_sampling_error() -> None:
    """Two policies of known value, and neither interval holds it: 1 in 400 where the sampling error is the error."""
    policies = [
        candidate(name, wis=sound(value, 0.03), lfqe=sound(value, 0.2)) for name, value in (("a", 0.2), ("b", 0.3))
    ]
    missed = trial(0.05, naive=0.6, wis=0.65, lfqe=0.1)
    held = replace(missed, estimates=missed.estimates | {"lfqe": Interval(0.1, -0.3, 0.5, 9)})
    best = recommend(["naive", "wis", "lfqe"], [held] * 2, policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "lfqe"
    alone = recommend(["naive", "wis"], [held] * 2, policies)
    assert alone == "wis missed every one of the log's own policies"
    once = recommend(["naive", "wis"], [held], policies)
    assert isinstance(once, Recommendation)
    assert "error on this log, 0.650" in once.reason


def test_one_that_missed_every_trial_is_named_where_nothing_else_was_tried() -> None:
    policies = [candidate(name, dr=sound(value), wis=flagged(value)) for name, value in (("a", 0.2), ("b", 0.3))]
    none = recommend(["naive", "dr", "wis"], [trial(0.01, dr=0.5, naive=0.1)] * 3, policies)
    assert isinstance(none, str)
    assert "dr missed every one of the log's own policies, every other estimator that values all candidates is" in none


def test_the_words_say_among_which_estimators_an_error_is_the_smallest() -> None:
    """A flagged estimator's own claim may be smaller, and so may that of a world model that `wm` stands for."""
    policies = [
        candidate(name, wis=flagged(value, 0.01), dr=sound(value, 0.2), lfqe=sound(value, 0.3))
        for name, value in (("a", 0.2), ("b", 0.3))
    ]
    best = recommend(["naive", "wis", "dr", "lfqe"], [], policies)
    assert isinstance(best, Recommendation)
    assert best.reason == "smallest expected error of the 2 estimators without a flag, 0.200; next is lfqe, 0.300"
    models = [candidate(**{"wm": sound(0.2, 0.2), "wm-bag": sound(0.2, 0.1)})]
    best = recommend(["wm", "wm-bag"], [trial(**{"wm": 0.2, "wm-bag": 0.1})], models)
    assert isinstance(best, Recommendation)
    assert best.reason.startswith("the only estimator that may be recommended here, expected error 0.200; on 1 ")


def refused() -> Estimate:
    return Estimate(value=None, low=None, high=None, n=9, refused="needs the target's log-probs")


def test_the_words_say_who_was_passed_over_for_refusing_a_candidate() -> None:
    """A function has no log-probs: only `wm` values it, though others have a smaller error for the other candidate."""
    wm = {"a": sound(0.2, 0.3), "fn": sound(0.3, 0.1)}
    one = candidate("a", wm=wm["a"], mis=sound(0.2, 0.085), wis=flagged(0.2, 0.001))
    fn = candidate("fn", wm=wm["fn"], mis=refused(), wis=refused())
    best = recommend(["naive", "wis", "mis", "wm"], [trial(wm=0.1)], [one, fn])
    assert isinstance(best, Recommendation)
    own = ((0.3**2 + 0.1**2) / 2) ** 0.5
    assert best.reason.startswith(
        f"the only estimator with a value of every candidate, expected error {own:.3f}; mis has 0.085 but does not "
        "value fn; on 1 of the log's policies"
    )
    two = [
        p.model_copy(update={"estimates": p.estimates | {"lfqe": sound(p.estimates["wm"].value, 0.9)}})
        for p in (one, fn)
    ]
    best = recommend(["naive", "wis", "mis", "wm", "lfqe"], [trial(wm=0.1)], two)
    assert isinstance(best, Recommendation)
    assert best.reason.startswith("smallest expected error of the 2 estimators with a value of every candidate, 0.224")
    surer = [
        p.model_copy(update={"estimates": p.estimates | {"dr": flagged(p.estimates["wm"].value, 0.01)}}) for p in two
    ]
    best = recommend(["naive", "mis", "wm", "lfqe", "dr"], [trial(wm=0.1)], surer)
    assert isinstance(best, Recommendation)
    assert best.reason.startswith(
        "smallest expected error of the 2 estimators with a value of every candidate and no flag, 0.224; next is lfqe"
    )
    alone = recommend(["naive", "wis", "wm"], [trial(wm=0.1)], [fn])
    assert isinstance(alone, Recommendation)
    assert alone.reason.startswith("the only estimator with a value of every candidate, expected error 0.100; on 1 ")


def test_what_fit_said_against_a_world_model_is_repeated() -> None:
    policies = [candidate(name, wm=sound(value), wis=flagged(value)) for name, value in (("a", 0.2), ("b", 0.3))]
    points = [
        "wm misses the log's own returns by 0.127 in replay: its values may be off by as much",
        "wm does not beat the bag",
    ]
    best = recommend(["wis", "wm"], [trial(9.0, wm=0.1)], policies, weak_points={"wm": points, "wis": []})
    assert isinstance(best, Recommendation)
    assert best.reason.endswith(f"; but fit warned: {points[0]} (and 1 more, see the notes)")
    assert best.doubts == tuple(points)
    best = recommend(["wis", "wm"], [trial(9.0, wm=0.1)], policies, weak_points={"wm": points[:1]})
    assert isinstance(best, Recommendation)
    assert best.reason.endswith(f"; but fit warned: {points[0]}")
    best = recommend(["wis"], [trial(9.0, wis=0.1)], policies, weak_points={"wm": points})
    assert isinstance(best, Recommendation)
    assert "fit" not in best.reason and not best.doubts


def test_intervals_that_missed_in_the_trials_are_counted() -> None:
    """The truth is 0: an estimate of .3 with a lower limit of .2 misses it, one with -.1 does not."""
    policies = [candidate(name, wis=sound(value)) for name, value in (("a", 0.2), ("b", 0.3))]
    best = recommend(["wis"], [trial(0.1, wis=0.3), trial(0.4, wis=0.3)], policies)
    assert isinstance(best, Recommendation)
    assert best.reason.endswith("on 2 of the log's policies 0.300 ± 0.000, 1 of 2 intervals hold the value")
    best = recommend(["wis"], [trial(0.4, wis=0.3), trial(wis=0.3)], policies)
    assert isinstance(best, Recommendation)
    assert best.reason.endswith("0.300 ± 0.000"), "one holds it, the other has no interval"


def test_a_world_model_that_lost_to_the_behaviour_mean_is_not_recommended() -> None:
    policies = [candidate(name, wm=sound(value), lfqe=flagged(value, 0.5)) for name, value in (("a", 0.2), ("b", 0.3))]
    none = recommend(["naive", "lfqe", "wm"], [trial(9.0, naive=0.41, lfqe=0.6, wm=0.43)] * 3, policies)
    assert isinstance(none, str)
    assert none.startswith(
        "no estimator that may be recommended here beats the behaviour mean: its error on the log's own policies is "
        "0.410, that of wm 0.430, that of lfqe, which is flagged, 0.600: collect"
    )
    best = recommend(["naive", "lfqe", "wm"], [trial(9.0, naive=0.41, lfqe=0.33, wm=0.43)] * 3, policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "lfqe"
    assert "wm, without a flag, had no smaller error than the behaviour mean on policies left out" in best.reason
    alone = recommend(["naive", "wm"], [trial(9.0, naive=0.41, wm=0.43)] * 3, policies)
    assert isinstance(alone, str)
    assert "is 0.410, that of wm 0.430: collect" in alone and "flag" not in alone
    few = recommend(["naive", "wm"], [trial(9.0, naive=0.41, wm=0.43)] * 2, policies)
    assert isinstance(few, Recommendation), "two trials are too few for a verdict"


def test_what_did_not_beat_the_behaviour_mean_is_named_with_its_flag_or_without() -> None:
    """`wm` lost, `wm-magic` is flagged and lost; `wm-bag` did better than both, and may not be recommended beside `wm`:
    nothing is said of it, nor that the behaviour mean was better than it."""
    policies = [
        candidate(name, **{"wm": sound(value), "wm-bag": sound(value), "wm-magic": magic, "wis": refused()})
        for name, value, magic in (("careful", 0.2, sound(0.2)), ("lazy", 0.3, flagged(0.3)))
    ]
    trials = [trial(9.0, **{"naive": 0.016, "wis": 0.076, "wm": 0.036, "wm-bag": 0.012, "wm-magic": 0.037})] * 3
    none = recommend(["naive", "wis", "wm", "wm-bag", "wm-magic"], trials, policies)
    assert isinstance(none, str)
    assert none.startswith(
        "no estimator that may be recommended here beats the behaviour mean: its error on the log's own policies is "
        "0.016, that of wm 0.036, that of wm-magic, which is flagged, 0.037: collect"
    )


def test_a_world_model_without_a_trial_is_not_recommended_in_place_of_one_that_lost() -> None:
    policies = [
        candidate(name, **{"wm": sound(value), "wm-dr": sound(value)}) for name, value in (("a", 0.2), ("b", 0.3))
    ]
    none = recommend(["naive", "wm", "wm-dr"], [trial(9.0, naive=0.41, wm=0.43)] * 3, policies)
    assert isinstance(none, str)
    assert "that of wm 0.430: collect" in none


def test_sound_weights_that_lost_to_the_behaviour_mean_are_recommended_with_a_word_on_it() -> None:
    """Loggers of like value are all near the mean: that says little against weights with effective episodes enough."""
    policies = [candidate(name, wis=sound(value)) for name, value in (("a", 0.2), ("b", 0.3))]
    best = recommend(["naive", "wis"], [trial(9.0, naive=0.01, wis=0.03)] * 3, policies)
    assert isinstance(best, Recommendation)
    assert best.reason.endswith("on 3 of the log's policies 0.030 ± 0.000, no better than the behaviour mean, 0.010")


def test_a_flagged_estimator_without_a_trial_is_not_recommended() -> None:
    """Where weights vanish `dr` is its model alone: the small error it claims is that of nothing."""
    policies = [candidate("c", wis=flagged(0.4, 0.1), dr=flagged(0.405, 0.057))]
    none = recommend(
        ["naive", "wis", "dr"], [trial(naive=0.1)] * 3, policies, to_try="--logger NAME=SPEC for b tries them"
    )
    assert isinstance(none, str)
    assert none.startswith(
        "no estimate here can be relied on: every estimator that values all candidates is flagged, and none of these "
        "was tried on the log's own policies: --logger NAME=SPEC for b tries them; --world-model adds"
    )
    assert "0.057" not in none
    assert none.endswith("; episodes of c or of policies near add overlap")


def test_no_advice_is_given_that_was_followed() -> None:
    """Every logger was given, and so was a world model."""
    policies = [candidate("c", wis=flagged(0.4, 0.1), **{"wm-dr": flagged(0.4, 0.1)})]
    none = recommend(["naive", "wis", "wm-dr"], [trial(naive=0.1)] * 3, policies)
    assert isinstance(none, str)
    assert none.endswith("tried on the log's own policies: episodes of c or of policies near add overlap")


@pytest.mark.parametrize(
    ("loggers", "given", "certificate", "advice"),
    [
        (["a", "b", "c"], ["b"], True, "--logger NAME=SPEC for a, c tries them"),
        (["a", "b"], ["a", "b"], True, ""),
        (["a", "b"], ["a", "b"], False, "--certificate true tries them"),
        (["a"], ["a"], True, "the log has one policy, which gives no trial: episodes of a second one"),
        (["a"], [], True, "the log has one policy, which gives no trial: episodes of a second one"),
    ],
)
def test_what_gives_trials_is_what_is_not_given_yet(
    loggers: list[str], given: list[str], certificate: bool, advice: str
) -> None:
    assert what_gives_trials(loggers, given, certificate).startswith(advice)
    assert bool(advice) == bool(what_gives_trials(loggers, given, certificate))


def test_the_flag_of_a_candidate_of_the_log_needs_no_trial() -> None:
    """Its value is the mean of its own episodes, flagged where these all ended alike."""
    policies = [candidate(wis=sound(0.4)), candidate("v2", wis=flagged(0.0, 0.01))]
    assert isinstance(recommend(["naive", "wis"], [], policies), str)
    best = recommend(["naive", "wis"], [], policies, in_log=["v2"])
    assert isinstance(best, Recommendation)
    assert best.estimator == "wis"


def test_a_flagged_estimator_is_no_surer_than_its_errors_on_known_policies() -> None:
    """One weight that outweighs all others has no spread, and is no less wrong for it."""
    one, two = candidate(wis=flagged(1.0, 0.0), dr=flagged(0.2)), candidate("b", wis=flagged(0.3, 0.0), dr=flagged(0.4))
    trials = [trial(9.0, wis=0.4, dr=0.2) for _ in range(3)]
    best = recommend(["wis", "dr"], trials, [one, two])
    assert isinstance(best, Recommendation)
    assert (best.estimator, best.policy) == ("dr", "b")
    assert best.reason.startswith("smallest expected error on this log, 0.200; next is wis, 0.400")
    few = recommend(["wis", "dr"], trials[:1], [one, two])
    assert isinstance(few, Recommendation)
    assert few.estimator == "dr", "one trial says more than no spread at all"


def test_where_nothing_is_measured_nothing_is_recommended() -> None:
    """The interval of one weight that outweighs all others is a point: not an error of zero."""
    policies = [candidate(wis=flagged(1.0, 0.0)), candidate("b", wis=flagged(0.3, 0.0))]
    reason = recommend(["wis"], [], policies, in_log=["a", "b"])
    assert reason == "the error of wis is not measured: too few episodes of the log are like the candidates"
    single = [policy.estimates["wis"].model_copy(update={"n": 1}) for policy in policies]
    reason = recommend(["wis"], [], [candidate(wis=single[0]), candidate("b", wis=single[1])])
    assert reason == "the error of wis is not measured: give more than one episode"


def test_an_estimator_that_missed_every_known_policy_is_out() -> None:
    """However sure it is of itself; one trial is too few to say so, but says how far it is off."""
    policies = [candidate(lfqe=sound(0.5, 0.01), wis=sound(0.3, 0.2)), candidate("b", lfqe=sound(0.6), wis=sound(0.4))]
    missed = [trial(half=0.05, lfqe=0.4, wis=0.01)] * 3
    best = recommend(["lfqe", "wis"], missed, policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "wis"
    assert recommend(["lfqe"], missed[:2], policies) == "lfqe missed every one of the log's own policies"
    once = recommend(["lfqe"], missed[:1], policies)
    assert isinstance(once, Recommendation)
    assert once.reason.startswith("smallest expected error on this log, 0.400; on 1 of the log's policies")


def test_a_world_model_is_recommended_only_with_a_certificate() -> None:
    policies = [candidate(wis=flagged(0.2), adwm=sound(0.2)), candidate("b", wis=flagged(0.3), adwm=sound(0.3))]
    none = recommend(["naive", "wis", "adwm"], [trial(naive=0.0, wis=0.1)], policies)
    reason = "the error of adwm on this log is not certified, and no other that may be recommended is without a flag"
    assert none == reason
    best = recommend(["naive", "wis", "adwm"], [trial(naive=0.0, wis=0.1, adwm=0.1)], policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "adwm"


@pytest.mark.parametrize("reference", ["wm-bag", "adwm", "adwm-noise", "wm-knn"])
def test_world_models_that_wm_is_compared_with_are_recommended_only_without_it(reference: str) -> None:
    policies = [
        candidate(name, **{"wm": sound(value, 0.2), reference: sound(value, 0.1), "wis": sound(value, 0.3)})
        for name, value in (("a", 0.3), ("b", 0.5))
    ]
    trials = [trial(9.0, **{"wm": 0.2, reference: 0.1, "wis": 0.3})] * 3
    best = recommend(["wis", "wm", reference], trials, policies)
    assert isinstance(best, Recommendation)
    assert (best.estimator, "next is wis" in best.reason) == ("wm", True)
    alone = recommend(["wis", reference], trials, policies)
    assert isinstance(alone, Recommendation)
    assert alone.estimator == reference


def test_where_log_probs_are_convicted_an_estimator_without_them_is_taken() -> None:
    policies = [
        candidate(name, wis=flagged(value, 0.01), lfqe=flagged(value, 0.1)) for name, value in (("a", 0.2), ("b", 0.3))
    ]
    best = recommend(
        ["wis", "lfqe"], [trial(wis=0.01, lfqe=0.1)], policies, Audit(contradictions=("one of them is wrong",))
    )
    assert isinstance(best, Recommendation)
    assert best.estimator == "lfqe"


def test_a_world_model_that_weights_correct_rests_on_log_probs() -> None:
    policies = [
        candidate(name, **{"wm-magic": flagged(value, 0.01), "lfqe": flagged(value, 0.1)})
        for name, value in (("a", 0.2), ("b", 0.3))
    ]
    trials = [trial(**{"wm-magic": 0.01, "lfqe": 0.1})]
    best = recommend(["wm-magic", "lfqe"], trials, policies, Audit(contradictions=("one of them is wrong",)))
    assert isinstance(best, Recommendation)
    assert best.estimator == "lfqe"


def test_where_the_log_lacks_actions_weights_are_self_normalised() -> None:
    lacking = Diagnostics(100, 50, step_weight=0.8, step_weight_error=0.02)
    policies = [
        candidate(name, **{"is": flagged(value, 0.01), "pdwis": flagged(value, 0.1)}).model_copy(
            update={"diagnostics": lacking}
        )
        for name, value in (("a", 0.2), ("b", 0.3))
    ]
    best = recommend(["is", "pdwis"], [trial(**{"is": 0.01, "pdwis": 0.1})], policies, Audit())
    assert isinstance(best, Recommendation)
    assert best.estimator == "pdwis"
    trials = [
        Trial("logger", ("other",), 0.0, {n: Interval(e, -1.0, 1.0, 9) for n, e in errors.items()}, {})
        for errors in [{"is": 0.1, "pdwis": 0.3}] * 3
    ]
    best = recommend(["is", "pdwis"], trials, policies, Audit())
    assert isinstance(best, Recommendation)
    assert best.estimator == "is", "policies of known value can tell"


def test_nothing_beats_the_behaviour_mean() -> None:
    policies = [candidate(wis=flagged(0.2)), candidate("b", wis=flagged(0.3))]
    none = recommend(["naive", "wis"], [trial(naive=0.1, wis=0.3)] * 3, policies)
    assert isinstance(none, str)
    assert "behaviour mean: its error on the log's own policies is 0.100, that of wis, which is flagged, 0.300" in none
    assert none.endswith("collect episodes of each of a, b")  # the behaviour mean has no interval here
    assert isinstance(recommend(["naive", "wis"], [trial(naive=0.5, wis=0.3)] * 3, policies), Recommendation)
    wide = Estimate(value=0.1, low=0.05, high=0.15, n=4000, error=0.0255)
    only = [PolicyResult(name="a", estimates={"naive": wide, "wis": flagged(0.2)})]
    none = recommend(["naive", "wis"], [trial(naive=0.1, wis=0.3)] * 3, only)
    assert isinstance(none, str)
    assert none.endswith("collect about 1,000 episodes of a")  # 4,000 (.05 / .1)^2


def test_so_many_episodes_are_as_sure_as_promised() -> None:
    """The interval of the mean of so many new episodes is as wide as the error that it was to match."""
    rng = np.random.default_rng(0)
    logged = interval((rng.random(700) < 0.3).astype(float), np.arange(700))
    assert logged.low is not None
    assert logged.high is not None
    for error in (0.02, 0.05):
        needed = episodes_needed((logged.high - logged.low) / 2, 700, error)
        assert 0.9 < needed / (1.96**2 * 0.3 * 0.7 / error**2) < 1.15
        fresh = interval((rng.random(needed) < 0.3).astype(float), np.arange(needed))
        assert fresh.low is not None
        assert fresh.high is not None
        assert (fresh.high - fresh.low) / 2 == pytest.approx(error, rel=0.1)
    assert episodes_needed(0.05, 4000, 0.049) == 4200  # 4,165, rounded up to two digits
    assert episodes_needed(0.001, 100, 0.5) == 25  # a mean of fewer is not trusted


def test_values_that_differ_by_rounding_alone_are_not_told_apart() -> None:
    """As 0.9999999999999998 and 1.0 of a log of successes; tiny returns that differ by a tenth are."""
    ones = [candidate(wis=sound(1.0)), candidate("b", wis=sound(1.0 - 2e-16))]
    none = recommend(["wis"], [], ones)
    assert none == "no estimator that depends on the policy values all candidates and tells them apart"
    small = [candidate(wis=sound(1e-12)), candidate("b", wis=sound(1.1e-12))]
    best = recommend(["wis"], [], small)
    assert isinstance(best, Recommendation) and best.policy == "b"


def test_it_says_that_own_means_stand_for_the_values_of_the_logs_policies() -> None:
    trials = [
        replace(trial(wis=0.3), truth_error=0.1, truth_episodes=10),
        replace(trial(wis=0.1), truth_error=0.1, truth_episodes=1200),
    ]
    best = recommend(["wis"], trials, [candidate(wis=sound(0.5))])
    assert isinstance(best, Recommendation)
    shown = "on 2 of the log's policies (by own means of 10 to 1,200 episodes) 0.141 ± 0.141"
    assert best.reason.endswith(shown), "the roots of .3^2 - .1^2 and 0"
