"""Which estimator is recommended, on certificates and estimates made up for the purpose."""

from types import SimpleNamespace
from typing import Any

from worldline.evaluate.result import Estimate, recommended
from worldline.ope.certificate import Trial
from worldline.ope.intervals import Interval

FLAGGED = Estimate(0.3, None, None, 9, flag="2.0 effective episodes")


def candidate(**estimates: Estimate) -> Any:
    return SimpleNamespace(estimates={"naive": Estimate(0.1, None, None, 9), **estimates})


def trial(**errors: float) -> Trial:
    return Trial("logger", ("other",), 0.0, {n: Interval(e, None, None, 9) for n, e in errors.items()}, {})


def sound(value: float) -> Estimate:
    return Estimate(value, None, None, 9)


def test_a_blind_estimator_is_not_recommended_for_a_single_candidate() -> None:
    best, _ = recommended(["naive", "wis"], [trial(naive=0.0, wis=0.5)], [candidate(wis=sound(0.3))])
    assert best is not None
    assert best["errors"] == {"wis": 0.5}
    best, note = recommended(["naive"], [trial(naive=0.0)], [candidate()])
    assert best is None
    assert note.startswith("no recommendation: no estimator that looks at the policy")


def test_a_flagged_estimator_is_recommended_only_where_all_are() -> None:
    trials = [trial(naive=0.0, wis=0.1, dr=0.5)]
    one, two = candidate(wis=sound(0.2), dr=sound(0.2)), candidate(wis=FLAGGED, dr=sound(0.4))
    best, _ = recommended(["naive", "wis", "dr"], trials, [one, two])
    assert best is not None
    assert best["estimator"] == "dr"
    best, note = recommended(["naive", "wis", "dr"], trials, [one, candidate(wis=FLAGGED, dr=FLAGGED)])
    assert best is not None
    assert best["estimator"] == "wis"
    assert "every estimator is flagged" in note


def test_without_a_certificate_nothing_is_recommended() -> None:
    judged = [candidate(wis=FLAGGED, adwm=sound(0.2))]
    best, note = recommended(["naive", "wis", "adwm"], [trial(naive=0.0, wis=0.1)], judged)
    assert best is None
    assert note == "no recommendation: nothing certifies adwm on this log, the others are flagged"
