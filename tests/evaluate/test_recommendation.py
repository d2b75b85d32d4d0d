"""Which estimator is recommended, on certificates and estimates made for the purpose."""

from worldline.evaluate.recommendation import expected_error, fallback, recommend
from worldline.evaluate.result import Estimate, PolicyResult, Recommendation
from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial
from worldline.ope.diagnostics import Diagnostics
from worldline.ope.intervals import Interval


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
    reason = "smallest expected error on this log, 0.035; next is dr, 0.200; on 2 policies of known value 0.200 ± 0.100"
    assert best == Recommendation(estimator="wis", policy="b@0.5", reason=reason)


def test_a_flagged_estimator_is_recommended_only_where_all_are() -> None:
    one, two = candidate(wis=sound(0.2, 0.01), dr=sound(0.2)), candidate("b", wis=flagged(0.3, 0.01), dr=sound(0.4))
    best = recommend(["naive", "wis", "dr"], [], [one, two])
    assert isinstance(best, Recommendation)
    assert best.estimator == "dr"
    best = recommend(["naive", "wis", "dr"], [], [one, candidate("b", wis=flagged(0.3, 0.01), dr=flagged(0.4))])
    assert isinstance(best, Recommendation)
    assert best.estimator == "wis"
    assert "every estimator is flagged" in best.reason


def test_an_estimator_that_missed_every_known_policy_is_out() -> None:
    """However sure it is of itself; two trials are too few to say so."""
    policies = [candidate(lfqe=sound(0.5, 0.01), wis=sound(0.3, 0.2)), candidate("b", lfqe=sound(0.6), wis=sound(0.4))]
    missed = [trial(half=0.05, lfqe=0.4, wis=0.01)] * 3
    best = recommend(["lfqe", "wis"], missed, policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "wis"
    few = recommend(["lfqe", "wis"], missed[:2], policies)
    assert isinstance(few, Recommendation)
    assert few.estimator == "lfqe"


def test_a_world_model_is_recommended_only_with_a_certificate() -> None:
    policies = [candidate(wis=flagged(0.2), adwm=sound(0.2)), candidate("b", wis=flagged(0.3), adwm=sound(0.3))]
    none = recommend(["naive", "wis", "adwm"], [trial(naive=0.0, wis=0.1)], policies)
    assert none == "the error of adwm on this log is not certified, and the other estimators are flagged"
    best = recommend(["naive", "wis", "adwm"], [trial(naive=0.0, wis=0.1, adwm=0.1)], policies)
    assert isinstance(best, Recommendation)
    assert best.estimator == "adwm"


def test_where_log_probs_are_convicted_an_estimator_without_them_is_taken() -> None:
    policies = [
        candidate(name, wis=flagged(value, 0.01), lfqe=flagged(value, 0.1)) for name, value in (("a", 0.2), ("b", 0.3))
    ]
    best = recommend(["wis", "lfqe"], [], policies, Audit(contradictions=("one of them is wrong",)))
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
    best = recommend(["is", "pdwis"], [], policies, Audit())
    assert isinstance(best, Recommendation)
    assert best.estimator == "pdwis"


def test_nothing_beats_the_behaviour_mean() -> None:
    policies = [candidate(wis=flagged(0.2)), candidate("b", wis=flagged(0.3))]
    none = recommend(["naive", "wis"], [trial(naive=0.1, wis=0.3)] * 3, policies)
    assert isinstance(none, str)
    assert (
        "nothing here beats the behaviour mean: its error on the log's own policies is 0.100, that of wis 0.300" in none
    )
    assert isinstance(recommend(["naive", "wis"], [trial(naive=0.5, wis=0.3)] * 3, policies), Recommendation)


def test_candidates_are_compared_by_the_least_uncertain_where_nothing_is_recommended() -> None:
    same = [candidate(wis=sound(0.2, 0.3), dr=sound(0.2)), candidate("b", wis=sound(0.2, 0.3), dr=sound(0.2))]
    assert isinstance(recommend(["naive", "wis", "dr"], [], same), str)
    assert fallback(["naive", "wis", "dr"], same) == "dr"
    assert fallback(["naive"], same) == "naive"
