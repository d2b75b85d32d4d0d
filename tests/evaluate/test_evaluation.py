"""`evaluate` as a whole: the shape of its result, and a clear line for every kind of bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
from goal_seekers import GoalSeeker, Write
from rich.console import Console

import worldline.evaluate
from worldline.evaluate import Candidate, EvaluateConfig, evaluate, views
from worldline.evaluate.truth import read_truth, truth_of
from worldline.ope.evidence import ESTIMATORS, Estimator
from worldline.types import InputError, Trajectory

LINEAR = tuple(name for name in ESTIMATORS if name != "fqe")
QUICK = ("naive", "is", "wis", "pdwis", "lfqe", "dr")


def without_logprobs(episodes: list[Trajectory]) -> list[Trajectory]:
    return [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"logprob": None}) for s in t.steps)}) for t in episodes
    ]


def with_rewards(episodes: list[Trajectory], reward: float) -> list[Trajectory]:
    return [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"reward": reward}) for s in t.steps)})
        for t in episodes
    ]


def test_evaluation_json_has_the_contracts_shape(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    truth.write_text('{"keen": 0.16, "keen@0.5": 0.1, "random": 0.03, "random@0.5": 0.03}')
    out = tmp_path / "run"
    config = EvaluateConfig(
        log=(write(episodes),),
        policy=("random",),
        epsilon=(0.0, 0.5),
        estimators=QUICK,
        truth=truth,
        out=out,
        bootstrap=200,
        certificate=False,
    )
    result = evaluate(config, {"keen": GoalSeeker(1.3, "keen")})
    told = json.loads((out / "evaluation.json").read_text())
    assert told == json.loads(json.dumps(result.as_dict()))
    assert set(told) == {"policies", "agreement", "recommended", "warnings", "meta"}
    assert [(p["name"], p["epsilon"]) for p in told["policies"]] == [
        ("random", 0.0), ("random", 0.5), ("keen", 0.0), ("keen", 0.5)
    ]  # fmt: skip
    for row in told["policies"]:
        assert set(row) == {"name", "epsilon", "estimates", "predictors", "diagnostics", "truth"}
        for name in QUICK:
            assert {"value", "low", "high", "n"} <= set(row["estimates"][name])
    assert sorted(row["estimates"]["dr"]["rank"] for row in told["policies"])[0] == 1
    keys = {"spearman", "spearman_low", "spearman_high", "kendall", "regret@1", "mae", "rmse", "coverage"}
    assert keys <= set(told["agreement"]["dr"])
    assert {"-epsilon", "behaviour mean", "nearest logger", "episode length"} <= set(told["agreement"])
    with pytest.raises(InputError, match="--overwrite"):
        evaluate(config, {"keen": GoalSeeker(1.3, "keen")})


def test_diagnostics_are_printed_before_any_estimate(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), estimators=QUICK, features="ngrams:64")
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - the console keeps it
    for part in views(evaluate(config)):
        console.print(part)
    text = console.export_text()
    assert text.index("effective episodes") < text.index("from others: error") < text.index("interval, rank")


def test_five_lines_of_python(episodes: list[Trajectory], write: Write) -> None:
    result = worldline.evaluate(log=[write(episodes[:80])], policy=["random"], estimators=["wis"], certificate=False)
    found = result.value("random", "wis")
    assert found.value is not None
    assert found.low is not None
    assert found.low <= found.value
    with pytest.raises(InputError, match="unknown setting 'polcy'"):
        worldline.evaluate(log=["x"], polcy=[])


def test_estimators_from_above(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:40]),), policy=("random",), estimators=("am",), certificate=False)
    result = evaluate(
        config, extra=lambda candidate, evidence: {"am": Estimator(lambda log, gamma: np.full(log.episodes, 0.25))}
    )
    assert result.value("random", "am").value == 0.25


def test_no_behaviour_logprobs(episodes: list[Trajectory], write: Write) -> None:
    folder = write(without_logprobs(episodes[:80]))
    result = evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=QUICK))
    for name in ("is", "wis", "pdwis", "dr"):
        assert "column 'logprob' is empty" in (result.value("random", name).refused or "")
        assert result.value("random", name).value is None
    for name in ("naive", "lfqe"):
        assert result.value("random", name).value is not None
    assert any("column 'logprob' is empty" in note for note in result.warnings)


def test_loggers_stand_in_for_missing_logprobs(episodes: list[Trajectory], write: Write) -> None:
    folder = write(without_logprobs(episodes[:80]))
    config = EvaluateConfig(log=(folder,), policy=("random",), estimators=("wis",))
    result = evaluate(config, {"seeker0.6": GoalSeeker(0.6)})
    assert result.value("random", "wis").value is not None
    null = result.value("seeker0.6", "wis").value
    assert null == pytest.approx(np.mean([t.episode_return for t in episodes[:80]]))


def test_a_logger_that_is_not_the_one_is_told(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), logger=("seeker0.6=random",))
    result = evaluate(config)
    assert any("is not what logged 'seeker0.6'" in note for note in result.warnings)
    with pytest.raises(InputError, match="no policy of the log is called so"):
        evaluate(EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), logger=("nobody=random",)))


def test_every_estimator_refuses(episodes: list[Trajectory], write: Write) -> None:
    folder = write(without_logprobs(episodes[:80]))
    result = evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=("wis",), certificate=False))
    assert result.value("random", "wis").value is None


def test_a_candidate_with_a_loggers_name_is_scored_as_itself(episodes: list[Trajectory], write: Write) -> None:
    """Whether specified or given, and whoever stands for the logger of that name."""
    folder, name = write(episodes[:80]), "seeker0.6"
    wanted = {"estimators": ("wis",), "certificate": False, "log": (folder,)}
    alone = evaluate(EvaluateConfig(policy=("mine=random",), **wanted), {"keen": GoalSeeker(1.6)})
    at_random, keen = (alone.value(who, "wis").value for who in ("mine", "keen"))
    itself = GoalSeeker(0.6)
    both = EvaluateConfig(policy=(f"{name}=random",), logger=(f"{name}=expert",), **wanted)
    assert evaluate(both).value(name, "wis").value == pytest.approx(at_random)
    specified = evaluate(EvaluateConfig(policy=(f"{name}=random",), **wanted), loggers={name: itself})
    assert specified.value(name, "wis").value == pytest.approx(at_random)
    assert not any("is not what logged" in note for note in specified.warnings)
    given = evaluate(EvaluateConfig(**wanted), {name: GoalSeeker(1.6)}, loggers={name: itself})
    assert given.value(name, "wis").value == pytest.approx(keen)
    assert not any("is not what logged" in note for note in given.warnings)


def test_one_episode(episodes: list[Trajectory], write: Write) -> None:
    result = evaluate(EvaluateConfig(log=(write(episodes[:1]),), policy=("random",), estimators=(*QUICK, "magic")))
    found = result.value("random", "wis")
    assert found.value is not None
    assert (found.low, found.high) == (None, None)
    assert "needs two episodes" in (result.value("random", "magic").refused or "")
    assert any("one episode" in note for note in result.warnings)


def test_zero_reward_everywhere(episodes: list[Trajectory], write: Write) -> None:
    folder = write(with_rewards(episodes[:80], 0.0))
    result = evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=LINEAR, features="ngrams:64"))
    assert any("every reward in the log is 0" in note for note in result.warnings)
    for name, found in result.policies[0].estimates.items():
        assert found.value == pytest.approx(0.0, abs=1e-3), name


def test_a_policy_that_never_acts_so(episodes: list[Trajectory], write: Write) -> None:
    class Never(GoalSeeker):
        def logprobs(self, turns: object, actions: list[list[str]]) -> list[np.ndarray]:  # type: ignore[override]
            return [np.full(len(asked), -np.inf) for asked in actions]

    config = EvaluateConfig(log=(write(episodes[:80]),), estimators=QUICK, certificate=False)
    result = evaluate(config, {"never": Never(1.0)})
    for name in ("is", "wis", "pdwis"):
        assert "all importance weights are 0" in (result.value("never", name).refused or "")
    flag = result.value("never", "dr").flag
    assert flag is not None
    assert "0.0 effective episodes" in flag
    assert result.policies[0].diagnostics.never == 1.0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda t: with_rewards(t[:4], float("nan")), "step 1: reward is nan"),
        (lambda t: [*t[:4], t[0]], "occurs 2 times"),
    ],
)
def test_broken_logs(episodes: list[Trajectory], write: Write, change: object, line: str) -> None:
    with pytest.raises(InputError, match=line):
        evaluate(EvaluateConfig(log=(write(change(episodes)),), policy=("random",)))  # type: ignore[operator]


def test_bad_settings(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    folder = write(episodes[:8])
    with pytest.raises(InputError, match="did you mean 'pdwis'"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=("pdwiss",)))
    with pytest.raises(InputError, match="nothing to evaluate"):
        evaluate(EvaluateConfig(log=(folder,)))
    with pytest.raises(InputError, match="no such log"):
        evaluate(EvaluateConfig(log=(tmp_path / "nowhere",), policy=("random",)))
    with pytest.raises(InputError, match="between 0 and 1, got 1.5"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), epsilon=(1.5,)))
    with pytest.raises(InputError, match="--env shop: the log is of household"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), env="shop"))
    with pytest.raises(InputError, match="ngrams:WIDTH"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), features="ngrams:many"))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"interval": "hcope"}, "--bounds: --interval hcope needs"),
        ({"interval": "bernstein"}, "--bounds: --interval bernstein needs"),
        ({"bounds": (1, 0)}, "--bounds: the smallest value must lie below the largest"),
        ({"bounds": (0, "inf")}, "both finite"),
        ({"text_model": "hf:x"}, "--text-model hf:x: needs --world-model"),
        ({"interface": "soft"}, "--interface soft: needs --world-model"),
    ],
)
def test_settings_are_checked_before_anything_is_read(settings: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        worldline.evaluate(log=["nowhere"], policy=["random"], **settings)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[1]", "must be an object"),
        ("{", "not JSON"),
        ('{"a": "high"}', "not a number"),
        ('{"policies": [{}]}', "name"),
        ("{}", r"--truth \S+truth.json: holds no value"),
    ],
)
def test_bad_truth(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "truth.json"
    path.write_text(content)
    with pytest.raises(InputError, match=line):
        read_truth(path)


def test_truth_in_each_shape(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    expected = {("a", 0.0): 0.5, ("a", 0.2): 0.4}
    for shape in (
        {"a": 0.5, "a@0.2": 0.4},
        {"a": {"0": 0.5, "0.2": 0.4}},
        {"policies": [{"name": "a", "truth": 0.5}, {"name": "a", "epsilon": 0.2, "value": 0.4}]},
    ):
        path.write_text(json.dumps(shape))
        assert read_truth(path) == expected


def test_truth_that_does_not_match_is_told(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text('{"a": 0.5, "b@0.2": 0.4, "zed": 0.1}')
    asked = [Candidate(name, epsilon, "random", None) for name in ("a", "b") for epsilon in (0.0, 0.2)]
    truth, (strange, unknown) = truth_of(path, asked)
    assert truth["b", 0.2] == 0.4
    assert strange.endswith("no candidate is called zed")
    assert "says nothing of a@0.2, b:" in unknown
    assert truth_of(path, [*asked, Candidate("zed", 0.0, "random", None)])[1] == [unknown]
    with pytest.raises(InputError, match="names none of the candidates, c"):
        truth_of(path, [Candidate("c", 0.0, "random", None)])
