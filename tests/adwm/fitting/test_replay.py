import pytest

from worldline.adwm.fit import Fitted
from worldline.adwm.fitting.replay import horizon_curves
from worldline.adwm.world_model_env import ImaginedEnvironment
from worldline.types import Trajectory


def test_curves_of_every_model_over_held_out_episodes(fitted: Fitted) -> None:
    curves = horizon_curves(fitted.ensemble, episodes=6)
    assert set(curves) == {"adwm", "adwm-noise", "wm-ar", "wm-joint", "wm-knn"}
    for curve in curves.values():
        assert curve.steps[0] == 6
        assert sorted(curve.steps, reverse=True) == curve.steps
        assert len(curve.latent_error) == len(curve.steps)
        assert all(error >= 0 for error in curve.latent_error)
        assert all(0 <= first <= tenth <= 1 for first, tenth in zip(curve.recall_1, curve.recall_10, strict=True))


def test_an_episode_is_replayed_from_its_own_start(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its task has several starts."""
    started: list[tuple[int, str]] = []
    start_as = ImaginedEnvironment.start_as

    def noted(environment: ImaginedEnvironment, start: Trajectory) -> object:
        started.append((environment.own, start.id))
        return start_as(environment, start)

    monkeypatch.setattr(ImaginedEnvironment, "start_as", noted)
    horizon_curves(fitted.ensemble, ("adwm",), episodes=4)
    last = dict(started)
    assert {own: fitted.ensemble.episodes[own].id for own in last if own >= 0} == {
        own: name for own, name in last.items() if own >= 0
    }
    assert len(last) == 5, "four episodes, and their resets"
