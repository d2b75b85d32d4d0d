"""The columns of a log against its episodes; groups by any column."""

import numpy as np
import pytest
from goal_seekers import Write

from worldline.evaluate.log_columns import read_columns
from worldline.ope.log import ragged_log
from worldline.types import InputError, Trajectory


def test_columns_are_those_of_the_episodes(episodes: list[Trajectory], write: Write) -> None:
    some = [t.model_copy(update={"meta": {"colour": "red" if i % 3 else "blue"}}) for i, t in enumerate(episodes[::9])]
    columns, expected = read_columns([write(some)]), ragged_log(some)
    for name in ("rewards", "behaviour", "offsets", "tasks", "policies", "terminated"):
        np.testing.assert_array_equal(getattr(columns.log, name), getattr(expected, name))
    assert columns.log.ids == expected.ids
    assert columns.log.policy_names == expected.policy_names
    assert columns.worlds == ("household",)
    colours = columns.groups("colour")
    assert colours.names == ("blue", "red")
    assert [colours.names[code] for code in colours.codes] == [t.meta["colour"] for t in some]
    assert columns.groups("family").names == ("household",)
    assert columns.groups("task").names == expected.task_names
    kept = columns.take(np.array([2, 5]))
    assert kept.log.ids == (some[2].id, some[5].id)
    assert [kept.meta[0]["colour"], kept.meta[1]["colour"]] == [some[2].meta["colour"], some[5].meta["colour"]]
    assert kept.kept.tolist() == [2, 5]


def test_a_missing_log_prob_is_nan(episodes: list[Trajectory], write: Write) -> None:
    steps = (episodes[0].steps[0].model_copy(update={"logprob": None}), *episodes[0].steps[1:])
    log = read_columns([write([episodes[0].model_copy(update={"steps": steps})])]).log
    assert np.isnan(log.behaviour[0])
    assert not np.isnan(log.behaviour[1:]).any()


def test_an_episode_given_twice_is_named(episodes: list[Trajectory], write: Write) -> None:
    folder = write(episodes[:3])
    with pytest.raises(InputError, match=f"'{episodes[0].id}' occurs 2 times"):
        read_columns([folder, folder])
