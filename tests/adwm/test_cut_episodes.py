"""Imagined episodes end where those of their task do, and are judged as the log judges: values are exact here."""

from dataclasses import replace
from pathlib import Path

import pytest
from kernel_fits import fewer_updates
from workdays import BUDGETS, workdays

from brief_fits import make_fits_brief, make_networks_small
from worldline import store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.cli import main
from worldline.kernel.fitting import fit_once
from worldline.policies import PolicyConfig, load
from worldline.types import Trajectory

Captured = pytest.CaptureFixture[str]


def world_model(log: list[Trajectory]) -> Ensemble:
    with fewer_updates():
        return Ensemble((), fit_once(log, 0, 60)[0])


def by_wm(ensemble: Ensemble, bag: bool = False) -> KernelWorld:
    return KernelWorld(ensemble.kernel, ensemble.facts, bag=bag)


def lengths(played: list[Trajectory]) -> dict[str, set[int]]:
    return {task: {len(one) for one in played if one.task_id == task} for task in BUDGETS}


@pytest.mark.parametrize("bag", [False, True])
def test_each_task_is_imagined_for_its_own_budget_and_its_value_is_exact(bag: bool, tmp_path: Path) -> None:
    """All of them were imagined for the longest: 6 a task, where 4 is the mean."""
    world_model(workdays()).save(tmp_path / "wm")
    ensemble = Ensemble.load(tmp_path / "wm")
    imagined = imagine(by_wm(ensemble, bag), load("random", None, PolicyConfig()), rollouts=3)
    assert lengths(imagined.trajectories) == {task: {days} for task, days in BUDGETS.items()}
    assert imagined.values.mean() == pytest.approx(4.0)
    assert all(one.truncated and one.success is True for one in imagined.trajectories)


@pytest.mark.parametrize("preset", ["adwm", "adwm-paper"])
def test_the_networks_end_episodes_there_too(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fits_brief(monkeypatch, 20)
    make_networks_small(monkeypatch)
    settings = FitSettings(members=1, epochs=1, text_steps=40, replayed_episodes=0, rivals=False, left_out=False)
    ensemble = fit_ensemble(workdays(), settings).ensemble
    config = replace(IMAGINATION_PRESETS[preset], steps=3)
    played = imagine(ImaginedWorld(ensemble, config), load("random", None, PolicyConfig()), rollouts=2).trajectories
    longest = {task: max(of_task) for task, of_task in lengths(played).items()}
    assert all(longest[task] <= days for task, days in BUDGETS.items())
    assert preset != "adwm" or longest == BUDGETS, "no episode of this log was ended by the world"


def test_cuts_at_various_lengths_are_imagined_to_the_longest() -> None:
    ensemble = world_model(workdays(days=lambda task, number: BUDGETS[task] - number % 2))
    played = imagine(by_wm(ensemble), load("random", None, PolicyConfig()), rollouts=2).trajectories
    assert lengths(played) == {task: {6} for task in BUDGETS}


@pytest.mark.parametrize(("success", "rate"), [(True, "1.000"), (False, "0.000"), (None, "unknown")])
def test_collect_says_what_the_log_says_of_success(
    success: bool | None, rate: str, tmp_path: Path, capsys: Captured
) -> None:
    log = [one.model_copy(update={"success": success}) for one in workdays()]
    world_model(log).save(tmp_path / "wm")
    environment = f"imagined:{tmp_path / 'wm'}"
    out = tmp_path / "log"
    command = ["collect", "--env", environment, "--policy", "random", "--episodes", "6", "--out", str(out)]
    assert main([*command, "--options.halt", "false"]) == 0
    assert {one.success for one in store.read(out)} == {success}
    line = next(line for line in capsys.readouterr().out.splitlines() if "success" in line)
    assert rate in line


def test_the_sensitivity_to_guidance_needs_networks(tmp_path: Path, capsys: Captured) -> None:
    log = workdays()
    world_model(log).save(tmp_path / "wm")
    with store.StoreWriter(tmp_path / "log") as writer:
        for one in log:
            writer.append(one)
    command = [
        "evaluate",
        "--log",
        str(tmp_path / "log"),
        "--world-model",
        str(tmp_path / "wm"),
        "--policy",
        "random=random",
    ]
    assert main([*command, "--sensitivity", "2"]) == 2
    error = capsys.readouterr().err.strip()
    assert "--sensitivity: needs adwm's networks; this world model was fitted with --members 0" in error
