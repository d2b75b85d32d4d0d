from worldline.adwm.fit import Fitted
from worldline.adwm.replay import horizon_curves


def test_curves_of_every_model_over_held_out_episodes(fitted: Fitted) -> None:
    curves = horizon_curves(fitted.ensemble, episodes=12)
    assert set(curves) == {"adwm", "wm-ar", "wm-joint", "wm-knn"}
    for curve in curves.values():
        assert curve.steps[0] == 12
        assert sorted(curve.steps, reverse=True) == curve.steps
        assert len(curve.latent_error) == len(curve.steps)
        assert all(error >= 0 for error in curve.latent_error)
        assert all(0 <= first <= tenth <= 1 for first, tenth in zip(curve.recall_1, curve.recall_10, strict=True))


def test_ours_tells_the_text_and_the_end_where_rivals_drift(fitted: Fitted) -> None:
    curves = horizon_curves(fitted.ensemble, ("adwm", "wm-ar"), episodes=16)
    ours, theirs = curves["adwm"], curves["wm-ar"]
    weighed = sum(m * n for m, n in zip(ours.text_match, ours.steps, strict=True)) / sum(ours.steps)
    rival = sum(m * n for m, n in zip(theirs.text_match, theirs.steps, strict=True)) / sum(theirs.steps)
    assert weighed > 0.8
    assert weighed > rival
    assert ours.termination_auc > 0.95
