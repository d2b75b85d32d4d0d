"""The model of evaluation.json: what is written, what is read, what is refused."""

import json
import math
from pathlib import Path

import pytest

from worldline.evaluate.result import Evaluation, Recommendation, read_evaluation
from worldline.evaluate.result_parts import CertificateRecord, Estimate, PolicyResult, ranked_policies
from worldline.types import InputError


def sound(value: float) -> Estimate:
    return Estimate(value=value, low=None, high=None, n=9)


FLAGGED = sound(0.3).model_copy(update={"flag": "2.0 effective episodes"})


def candidate(name: str = "a", **estimates: Estimate) -> PolicyResult:
    return PolicyResult(name=name, estimates={"naive": sound(0.1), **estimates})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    policies = (candidate(dr=FLAGGED), candidate("b", dr=Estimate(value=None, low=None, high=None, n=9, refused="no")))
    best = Recommendation(estimator="dr", policy="a", reason="why")
    written = Evaluation(policies=policies, recommended=best, warnings=("mind",), agreement={"dr": {"mae": 0.5}})
    written.write(tmp_path / "evaluation.json")
    content = json.loads((tmp_path / "evaluation.json").read_text())
    assert content["policies"][0]["estimates"]["naive"] == {"value": 0.1, "low": None, "high": None, "n": 9}
    assert content["recommended"] == {"estimator": "dr", "policy": "a", "reason": "why", "doubts": []}
    assert "truth" not in content["policies"][0]
    assert read_evaluation(tmp_path / "evaluation.json") == written
    assert Evaluation.model_validate(written.as_dict()) == written


def test_a_number_that_is_not_finite_is_null_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    certificate = {"record": {"dr": CertificateRecord(trials=1, mae=math.inf)}}
    odd = Evaluation(
        policies=(candidate(dr=sound(0.1)),), agreement={"dr": {"mae": math.nan}}, meta={"certificate": certificate}
    )
    odd.write(path)
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()
    shown = read_evaluation(path)
    assert shown.agreement["dr"]["mae"] is None
    assert shown.record("dr") == CertificateRecord(trials=1, mae=None)


def test_a_file_of_an_earlier_or_later_version_is_read(tmp_path: Path) -> None:
    """Without `recommended` there is no recommendation, whatever an older `meta` says; unknown keys are ignored."""
    path = tmp_path / "evaluation.json"
    row = {"name": "a", "epsilon": 0.0, "estimates": {"dr": {"value": 1, "low": 0, "high": 2, "n": 3, "new": [1]}}}
    path.write_text(json.dumps({"policies": [row], "p_best": {"a": 1.0}, "meta": {"recommended": {"estimator": "dr"}}}))
    evaluation = read_evaluation(path)
    assert evaluation.recommended is None
    assert evaluation.value("a", "dr").value == 1
    assert evaluation.estimators == ("dr",)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "corrupt: not JSON"),
        ("[" * 10_000, "corrupt: not JSON"),
        ("[]", "no evaluation: 'the file'"),
        ('{"policies": [{"name": "x"}]}', "no evaluation: 'policies.0.estimates': Field required"),
        ('{"policies": [{"name": "x", "estimates": {"dr": {"value": 1}}}]}', "'policies.0.estimates.dr.low'"),
        ('{"policies": [{"name": "x", "estimates": {"dr": null}}]}', "'policies.0.estimates.dr'"),
        ('{"policies": []}', "holds no estimate"),
    ],
)
def test_a_file_that_is_no_evaluation_is_named(content: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(content)
    with pytest.raises(InputError, match=line) as error:
        read_evaluation(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"evaluation.json: cannot be read: No such file"):
        read_evaluation(tmp_path / "evaluation.json")


def test_an_estimate_that_is_not_there_is_named() -> None:
    evaluation = Evaluation(policies=(candidate(),))
    with pytest.raises(InputError, match="no estimate 'dr' of a: naive"):
        evaluation.value("a", "dr")
    with pytest.raises(InputError, match=r"no policy 'b' at epsilon 0.5 in this evaluation: a"):
        evaluation.value("b", "naive", 0.5)
    with pytest.raises(InputError, match="no estimator 'dr' was run: naive"):
        evaluation.record("dr")
    assert evaluation.record("naive") is None, "run, and without a certificate"


def test_a_candidate_has_a_label() -> None:
    mixed = candidate().model_copy(update={"epsilon": 0.5})
    evaluation = Evaluation(policies=(mixed,))
    assert evaluation.value("a@0.5", "naive") is evaluation.value("a", "naive", 0.5) is mixed.estimates["naive"]


def test_who_refuses_the_hard_policies_is_not_judged_on_all() -> None:
    """Of three policies one has no true value; `dr` refuses one of the other two, a predictor values both."""

    def policy(name: str, truth: float | None, refused: bool) -> PolicyResult:
        estimates = {"dr": sound(0.5).model_copy(update={"value": None} if refused else {}), "wm": sound(0.5)}
        return PolicyResult(name=name, truth=truth, estimates=estimates, predictors={"length": 3.0})

    evaluation = Evaluation(policies=(policy("a", 0.1, False), policy("b", 0.2, True), policy("c", None, True)))
    assert [evaluation.judged(name) for name in ("dr", "wm", "length", "nobody")] == [(1, 2), (2, 2), (2, 2), (0, 2)]


def test_values_that_are_equal_but_for_rounding_share_a_rank() -> None:
    def ranks(*values: float) -> list[int | None]:
        policies = [PolicyResult(name=str(value), estimates={"wis": sound(value)}) for value in values]
        return [policy.estimates["wis"].rank for policy in ranked_policies(policies, ["wis"])]

    assert ranks(1.0, 1.0 - 3e-16, 0.5) == [1, 1, 3]
    assert ranks(1e-12, 3e-12, 2e-12) == [3, 1, 2], "small values are told apart"
