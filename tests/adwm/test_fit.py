import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from written_logs import lamps

from brief_fits import make_fits_brief, make_networks_small
from worldline import store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitConfig, FitSettings, Fitted, fit, fit_ensemble, measured_kernel
from worldline.adwm.fitting.log_source import MemoryLog
from worldline.adwm.fitting.survey import facts_of, survey
from worldline.adwm.fitting.weak_points import kernel_notes, latent_notes
from worldline.adwm.model import LogFacts
from worldline.command_line import read
from worldline.kernel import fitting
from worldline.kernel.left_out import measuring_left_out
from worldline.types import InputError, Step, Trajectory


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    make_fits_brief(monkeypatch, 10)
    make_networks_small(monkeypatch)


def test_held_out_figures_are_good_and_complete(fitted: Fitted) -> None:
    assert fitted.figures["hazard_auc"] > 0.95
    assert fitted.figures["hazard_ece"] < 0.05
    assert fitted.figures["effective_rank"] > 2
    assert fitted.figures["wm_exact"] > 0.8
    assert not fitted.notes


def test_latents_that_say_nothing_are_noted(fitted: Fitted) -> None:
    member = fitted.ensemble.members[0]

    def noted(rank: float, nats: float) -> list[str]:
        figures = {"effective_rank": rank, "nats_diffusion": nats, "nats_noise": 1.0}
        return latent_notes([replace(member, figures=figures)])

    assert noted(5.0, 0.5) == latent_notes([]) == []
    assert ["collapsed" in note for note in noted(1.5, 0.5)] == [True]
    assert ["no more than noise" in note for note in noted(5.0, 0.99)] == [True]


@pytest.mark.parametrize(
    ("figures", "notes"),
    [
        ({"replay_error": 0.19, "replay_error_of_the_bag": 0.16, "left_out_error": 0.19}, []),
        ({"replay_error": 0.21}, ["wm misses the log's own returns by 0.21 in replay"]),
        ({"replay_error": 0.1, "replay_error_of_the_bag": 0.05}, ["wm does not beat the bag"]),
        ({"left_out_error": 0.21}, ["wm misses the returns of policies left out of the log by 0.21 in replay"]),
        (
            {"left_out_error": 0.15, "left_out_error_of_the_bag": 0.1},
            ["log by 0.15, the bag (wm-bag) by 0.1: go by the certificate"],
        ),
        ({"left_out_error": 0.15, "left_out_error_of_the_bag": 0.12}, []),
        ({"possible": 0.61}, []),
        ({"possible": 0.59}, ["wm can give 59% of the answers of held-out steps: what it imagines"]),
        ({"possible": 0.8, "possible_ends": 0.8}, []),
        ({"possible": 0.8, "possible_ends": 0.7}, ["80% of the answers of held-out steps and 70% of those at"]),
    ],
)
def test_what_speaks_against_the_kernel_is_noted(figures: dict[str, float], notes: list[str]) -> None:
    """Rewards from -1 to 1: a tenth of that is .2, a fiftieth .04."""
    facts = LogFacts(env="toy", horizon=8, reward_low=-1.0, reward_high=1.0)
    given = kernel_notes({f"wm_{name}": value for name, value in figures.items()}, facts)
    assert len(given) == len(notes)
    assert all(part in note for part, note in zip(notes, given, strict=True))


def test_members_hold_out_different_whole_tasks(fitted: Fitted) -> None:
    first, second = (set(member.held_out) for member in fitted.ensemble.members)
    assert first
    assert second
    assert not first & second


def test_a_saved_ensemble_answers_the_same(fitted: Fitted, tmp_path: Path) -> None:
    fitted.ensemble.save(tmp_path / "wm")
    again = Ensemble.load(tmp_path / "wm")
    assert again.episodes == fitted.ensemble.episodes
    for old, new in zip(fitted.ensemble.members, again.members, strict=True):
        assert (new.held_out, new.figures) == (old.held_out, old.figures)
        for name, weight in old.decoder.state_dict().items():
            assert torch.equal(weight, new.decoder.state_dict()[name])
        for name, weight in old.model.state_dict().items():
            assert torch.equal(weight, new.model.state_dict()[name])


def test_what_was_measured_is_read_with_the_ensemble(fitted: Fitted, tmp_path: Path) -> None:
    fitted.ensemble.save(tmp_path / "wm")
    figures = '{"wm_replay_error": 0.3, "wm_left_out_error": null}'
    (tmp_path / "wm" / "figures.json").write_text(f'{{"figures": {figures}, "notes": []}}')
    again = Ensemble.load(tmp_path / "wm")
    assert again.figures == {"wm_replay_error": 0.3, "wm_left_out_error": None}
    facts = LogFacts(env="toy", horizon=8, reward_low=0.0, reward_high=1.0)
    assert kernel_notes(again.figures, facts)[0].startswith("wm misses the log's own returns by 0.3 in replay")


def test_an_interrupted_fit_goes_on_as_if_it_had_not_been(log: list[Trajectory], tmp_path: Path) -> None:
    _write(log[::8], tmp_path / "log")
    given = {"log": (tmp_path / "log",), "members": 1, "epochs": 3, "text_steps": 20, "rivals": False}
    given["replayed_episodes"] = 0
    whole = fit(FitConfig(out=tmp_path / "whole", **given))

    class KilledError(Exception):
        pass

    def kill(row: dict[str, object]) -> None:
        if row["epoch"] == 2:
            raise KilledError

    with pytest.raises(KilledError):
        fit(FitConfig(out=tmp_path / "cut", **given), kill)
    with pytest.raises(InputError, match="--resume"):
        fit(FitConfig(out=tmp_path / "cut", **given))
    epochs: list[object] = []
    resumed = fit(FitConfig(out=tmp_path / "cut", resume=True, **given), lambda row: epochs.append(row["epoch"]))
    assert epochs == [2, 3]
    for name, weight in whole.ensemble.members[0].model.state_dict().items():
        assert torch.equal(weight, resumed.ensemble.members[0].model.state_dict()[name]), name
    assert resumed.figures == whole.figures


def test_every_part_of_a_fit_that_takes_long_is_heard_of(log: list[Trajectory], tmp_path: Path) -> None:
    """In order, each from 0 and never more than all of it."""
    _write(log[::8], tmp_path / "log")
    heard: list[tuple[str, int, int]] = []
    given = {"members": 1, "epochs": 1, "text_steps": 20, "replayed_episodes": 1, "out": tmp_path / "wm"}
    fit(
        FitConfig(log=(tmp_path / "log",), **given),
        lambda row: heard.append(("epochs", 0, 1)),
        lambda what, done, of: heard.append((what, done, of)),
    )
    assert list(dict.fromkeys(what for what, _, _ in heard)) == [
        "wm: reading the log",
        "wm: fitting wordings",
        "wm: wording the steps",
        "wm: fitting the gate",
        "wm: fitting the blend",
        "wm: fitting outcomes",
        "wm: fitting lists",
        "wm: replaying episodes",
        "epochs",
        "member 1 of 1: score network",
        "member 1 of 1: rivals",
        "member 1 of 1: decoder",
        "replaying held-out episodes",
    ]
    for what, _, of in heard:
        done = [done for name, done, _ in heard if name == what]
        assert done == sorted(done) and done[0] == 0 and done[-1] < of, what


def test_a_large_log_is_sampled_and_streamed_and_goes_on_when_killed(log: list[Trajectory], tmp_path: Path) -> None:
    """The kernel has 100 of some 250 steps; the networks see the rest too, and facts are of the whole log."""
    log = log[::2]
    _write(log, tmp_path / "log")
    given = {"log": (tmp_path / "log",), "members": 1, "epochs": 2, "text_steps": 20, "kernel_steps": 100}
    given |= {"rivals": False, "replayed_episodes": 0}
    whole = fit(FitConfig(out=tmp_path / "whole", **given))
    again = Ensemble.load(tmp_path / "whole")
    assert again.facts == facts_of(log)
    assert again.sample == whole.ensemble.sample
    assert again.sample is not None
    assert again.sample.steps == sum(map(len, log))
    assert sum(max(len(episode), 5) for episode in again.episodes) <= 100
    assert len(again.members[0].decoder.latents) == again.sample.sampled_steps == len(again.kernel.log)
    assert {episode.policy for episode in again.episodes} == {episode.policy for episode in log}
    assert any("of the log's" in note for note in whole.notes)
    assert "of the log's" in (tmp_path / "whole" / "member-0" / "README.md").read_text()
    seen: list[object] = []

    def kill(row: dict[str, object]) -> None:
        seen.append(row["epoch"])
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(FitConfig(out=tmp_path / "cut", **given), kill)
    resumed = fit(FitConfig(out=tmp_path / "cut", resume=True, **given), lambda row: seen.append(row["epoch"]))
    assert seen == [1, 2, 2]
    for name, weight in whole.ensemble.members[0].model.state_dict().items():
        assert torch.equal(weight, resumed.ensemble.members[0].model.state_dict()[name]), name
    assert resumed.figures == pytest.approx(whole.figures, rel=0, abs=0, nan_ok=True)


def test_a_log_as_large_as_the_bound_is_fitted_as_if_there_were_none(log: list[Trajectory]) -> None:
    log = log[::6]
    steps = sum(max(len(episode), 5) for episode in log)
    given = {"members": 1, "epochs": 1, "text_steps": 20, "rivals": False, "replayed_episodes": 0}
    bound = fit_ensemble(log, FitSettings(kernel_steps=steps, **given))
    free = fit_ensemble(log, FitSettings(**given))
    less = fit_ensemble(log, FitSettings(kernel_steps=steps - 1, **given))
    assert bound.figures == pytest.approx(free.figures, rel=0, abs=0, nan_ok=True)
    assert less.figures != pytest.approx(free.figures, rel=0, abs=0, nan_ok=True)
    for one, other in zip(bound.ensemble.members, free.ensemble.members, strict=True):
        for name, weight in one.model.state_dict().items():
            assert torch.equal(weight, other.model.state_dict()[name]), name


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda log: log[:3], "at least 8"),
        (lambda log: [*log[:10], log[10].model_copy(update={"steps": ()})], "no steps"),
        (lambda log: [*log[:10], log[10].model_copy(update={"env": "shop"})], "mixes environments"),
        (
            lambda log: [
                *log[:10],
                log[10].model_copy(update={"steps": (log[10].steps[0].model_copy(update={"reward": float("nan")}),)}),
            ],
            "reward of step 1 is nan",
        ),
    ],
)
def test_a_log_that_cannot_be_fitted_is_refused(
    log: list[Trajectory], spoil: Callable[[list[Trajectory]], list[Trajectory]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        survey(MemoryLog(spoil(log)))


def test_a_thin_log_is_fitted_with_notes(log: list[Trajectory], tmp_path: Path) -> None:
    """No success at all, one task only, one observation of 50 kB."""
    lost = [episode for episode in log if not episode.success]
    one = [episode for episode in log if episode.task_id == lost[0].task_id]
    thin = [
        episode.model_copy(update={"id": f"{episode.id}-{copy}", "success": False, "steps": _unpaid(episode)})
        for copy in range(5)
        for episode in one
    ]
    huge = thin[0].model_copy(update={"final_observation": "word " * 10_000, "terminated": False})
    thin = [huge, *(episode.model_copy(update={"terminated": False}) for episode in thin[1:])]
    notes = survey(MemoryLog(thin)).notes
    assert len(notes) == 3
    _write(thin, tmp_path / "log")
    log = (tmp_path / "log",)
    few = {"members": 1, "epochs": 1, "text_steps": 40, "rivals": False, "replayed_episodes": 2}
    thinly = fit(FitConfig(log=log, out=tmp_path / "wm", **few))
    assert thinly.notes[: len(notes)] == notes
    assert np.isnan(thinly.figures["hazard_auc"])
    assert json.loads((tmp_path / "wm" / "figures.json").read_text())["figures"]["hazard_auc"] is None


def _write(episodes: Sequence[Trajectory], folder: Path) -> None:
    with store.StoreWriter(folder) as writer:
        for episode in episodes:
            writer.append(episode)


def _unpaid(episode: Trajectory) -> tuple[Step, ...]:
    return tuple(step.model_copy(update={"reward": 0.0}) for step in episode.steps)


def test_facts_of_a_log(log: list[Trajectory]) -> None:
    facts = facts_of(log)
    assert facts.env == "household"
    assert facts.horizon == 12
    assert (facts.reward_low, facts.reward_high) == (0.0, 1.0)
    assert facts.policies == ("eps0.2", "eps0.6", "eps1")


def test_the_old_name_of_a_flag_is_refused_by_the_new_one() -> None:
    """`--horizon` was a number of episodes here, and is steps elsewhere."""
    with pytest.raises(InputError, match="^--horizon: is now called --replayed-episodes$"):
        read(FitConfig, ["log", "--out", "wm", "--horizon", "3"])
    assert read(FitConfig, ["log", "--out", "wm", "--replayed-episodes", "3"]).replayed_episodes == 3


def test_fitting_keeps_nothing_on_the_disk(fitted: Fitted, log: list[Trajectory], tmp_path: Path) -> None:
    """Settings are no command line: what was fitted in memory is saved when somebody says where."""
    assert not {"log", "out", "resume", "overwrite"} & FitSettings.model_fields.keys()
    fitted.save(tmp_path / "wm")
    assert Ensemble.load(tmp_path / "wm").replay_error == fitted.ensemble.replay_error > 0
    assert "nats_diffusion" in (tmp_path / "wm" / "member-1" / "README.md").read_text()


def test_without_policies_left_out_the_kernel_is_the_same_and_its_error_on_new_policies_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "measuring_left_out", measuring_left_out)  # the other tests here do without
    log = [episode.model_copy(update={"policy": f"p{number % 3}"}) for number, episode in enumerate(lamps(18, seed=1))]
    settings = FitSettings(members=0, text_steps=60, replayed_episodes=0)
    whole, figures = measured_kernel(log, settings)
    brief, fewer = measured_kernel(log, settings.model_copy(update={"left_out": False}))
    assert figures.keys() - fewer.keys() == {"wm_left_out_error", "wm_left_out_error_of_the_bag"}
    assert all(figures[name] == value for name, value in fewer.items())
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, brief.state_dict()[name]), name
