"""What an experiment keeps in its folder, and which parts of it are done side by side."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brief_fits import make_fits_brief, make_networks_small
from worldline import files
from worldline.bench import rank
from worldline.bench.experiment import Experiment, ExperimentConfig
from worldline.bench.policy_suite import Checkpoint, PolicySuite
from worldline.evaluate import evaluate
from worldline.policies.faulty_expert import Faults
from worldline.types import InputError

SUITE = PolicySuite(loggers={"a": Faults(chance=0.5)}, targets={"b": Faults()}, options={"level": "small"})


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    make_fits_brief(monkeypatch, 10)
    make_networks_small(monkeypatch)


def experiment(out: Path, **changes: Any) -> Experiment:
    settings = {"tasks": 8, "truth": 1, "members": 1, "jobs": 2, "certificate": False} | changes
    return Experiment(ExperimentConfig(**settings), "household", SUITE, out)


def test_a_folder_is_made_with_one_set_of_settings(tmp_path: Path) -> None:
    experiment(tmp_path).claim()
    experiment(tmp_path, jobs=1, estimators=("naive",)).claim()
    with pytest.raises(InputError, match=r"was made with --rollouts 2"):
        experiment(tmp_path, rollouts=3).claim()


def test_each_policy_plays_for_the_log_or_for_the_truth(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    for play in made.plays().values():
        play()
    assert [episode.policy for episode in made.log()] == ["a"] * 8
    assert made.truth()["b"] > 0.5, "the expert without faults"


def test_nothing_is_cloned_before_a_clone_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ClonedError(Exception):
        pass

    def cloned(*given: object) -> list[Path]:
        raise ClonedError

    monkeypatch.setattr("worldline.bench.experiment.clone_checkpoints", cloned)
    suite = replace(SUITE, language_models={"c": Checkpoint(0)}, cloning={"episodes": 1})
    made = replace(experiment(tmp_path), suite=suite)
    assert made.truth().keys() == {"b"}
    assert not [name for name in (*made.plays(), *made.evaluations([0])) if " c" in name], "bench rank leaves it alone"
    with pytest.raises(ClonedError):
        made.value("c")


def test_an_evaluation_is_spread_by_policy_and_estimator(tmp_path: Path) -> None:
    wanted = experiment(tmp_path, estimators=("naive", "am-dr", "wm-ar"), certificate=True, rival_seeds=1)
    once = ["score a", "score b"]
    first = [f"imagine {player} in {name} (seed 0)" for name in ("adwm", "wm-ar") for player in ("b", "a")]
    second = [f"imagine {player} in adwm (seed 1)" for player in ("b", "a")]
    assert list(wanted.evaluations([0, 1])) == [*once, *first, *second], "adwm itself is not certified"
    certified = list(experiment(tmp_path, certificate=True).evaluations([0]))
    assert certified[:3] == ["refit 1 of 2", "refit 2 of 2", "score a"]
    assert "imagine a in adwm (seed 0)" not in experiment(tmp_path).evaluations([0]), "no null test"


def test_the_parts_leave_nothing_to_imagine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole evaluation, after its parts, plays nobody, fits nothing and scores nobody."""
    made = experiment(tmp_path, estimators=("adwm", "am-dr"), certificate=True, rollouts=1, horizon=0)
    two = PolicySuite(
        loggers={"a": Faults(chance=0.5), "c": Faults(chance=0.1)},
        targets={"b": Faults()},
        options={"level": "tiny", "max_steps": 5},
    )
    made = replace(made, suite=two)
    for work in (made.plays(), made.fits([0]), made.evaluations([0])):
        for part in work.values():
            part()

    def again(*given: object, **settings: object) -> None:
        pytest.fail("was in the cache")

    monkeypatch.setattr("worldline.evaluate.world_model.fit_ensemble", again)
    monkeypatch.setattr(Faults, "load", again)
    config = made.evaluation(0).model_copy(update={"truth": None})
    loggers = made.sources(["a", "c"])
    whole = evaluate(config, made.sources(["b"]), loggers=loggers)
    assert whole.value("b", "am-dr").value is not None
    assert len(whole.meta.certificate.trials) == 2


def test_the_text_model_is_fitted_once_for_all_seeds(tmp_path: Path) -> None:
    wanted = experiment(tmp_path, estimators=("naive", "wm-text"), rival_seeds=2)
    assert list(wanted.fits([1, 2])) == ["fit wm-text", "fit (seed 1)", "fit (seed 2)"]
    assert list(wanted.fits([2])) == ["fit (seed 2)"], "that seed has no rivals"
    assert list(experiment(tmp_path).fits([0])) == ["fit (seed 0)"], "auto does not name it"
    assert wanted.evaluation(1).text_model == f"hf:{tmp_path / 'text' / 'model'}"


def test_a_table_is_used_again_only_with_the_same_settings(tmp_path: Path) -> None:
    plain, more = experiment(tmp_path, estimators=("naive",)), experiment(tmp_path, estimators=("naive", "adwm"))
    kept = {"settings": rank._settings(plain, 0), "evaluation": {"agreement": {}}}
    files.write_json(rank._path(plain, 0), kept)
    assert rank._earlier(plain, 0) == {"agreement": {}}
    assert rank._earlier(more, 0) is None
    assert rank._earlier(plain, 1) is None
