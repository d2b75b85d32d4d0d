"""The line of an update, and how long the rest will take."""

from worldline.paw.progress import RemainingTime, duration, unrewarded, update_line
from worldline.paw.recipe import TrainConfig


def test_a_line_has_what_the_update_had() -> None:
    metrics = {"update": 3, "reward": 2.5, "success": 0.25, "kl": 0.001, "entropy": 0.4, "clip_fraction": 0.02}
    metrics |= {"pg_loss": -0.01, "wm_loss": 0.125, "seconds_rollout": 12.34, "seconds_update": 5.0, "rows": 700}
    assert update_line(metrics, 10, 65.2) == (
        "update 3 of 10: reward 2.50, success 0.25, kl 0.0010, entropy 0.400, policy loss -0.010, world loss 0.125, "
        "clipped 0.020, rollout s 12.3, update s 5.0, 1m05s left"
    )
    start = {"update": 0, "eval_success": 0.1234, "eval_observation_ce": 0.5}
    assert update_line(start, 10, None) == "update 0 of 10: evaluation 0.123, observation ce 0.500"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 61, 3600, 7265)] == ["0m00s", "1m00s", "1m01s", "1h00m", "2h01m"]


def test_what_remains_is_the_mean_of_the_updates_made_here() -> None:
    left = RemainingTime(10)
    assert left.after(4, 100.0) is None  # a resumed run: no update to go by yet
    assert left.after(5, 110.0) == 50.0
    assert left.after(6, 140.0) == 80.0
    assert RemainingTime(3).after(3, 0.0) is None


def test_a_run_without_any_reward_says_so() -> None:
    start, none = {"update": 0, "eval_success": 0.0}, {"reward": 0.0, "invalid": 1.0}
    (line,) = unrewarded([start, none, {"reward": 0.0, "invalid": 0.5}])
    assert line.startswith("no episode of 2 updates was rewarded") and "75% of the actions were invalid" in line
    assert "worldline sft" in line and "group_size" in TrainConfig.model_fields  # what it advises is there
    assert unrewarded([start]) == unrewarded([start, none, {"reward": 0.1, "invalid": 1.0}]) == []
