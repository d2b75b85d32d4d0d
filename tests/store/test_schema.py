"""The columns are the fields, and any trajectory comes back as it went in."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from worldline import store
from worldline.store.schema import SCHEMA, STEP
from worldline.types import InputError, Step, Trajectory

LONE_SURROGATES = st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), min_size=1, max_size=4)
"""What the `surrogateescape` handler makes of bytes that are not UTF-8."""
NUMBERS = st.floats()  # nan and both infinities among them
TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)


def steps(text: st.SearchStrategy[str]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        observation=text,
        admissible=st.none() | st.lists(text, max_size=3).map(tuple),
        action=text,
        response=text,
        reward=NUMBERS,
        valid=st.booleans(),
        logprob=st.none() | NUMBERS,
        token_ids=st.none() | TOKENS,
        token_logprobs=st.none() | st.lists(NUMBERS, max_size=4).map(tuple),
        entropy=st.none() | NUMBERS,
        prompt_ids=st.none() | TOKENS,
    )


def trajectories(text: st.SearchStrategy[str]) -> st.SearchStrategy[Trajectory]:
    return st.builds(
        Trajectory,
        id=text,
        env=text,
        env_version=text,
        task_id=text,
        split=text,
        goal=text,
        policy=text,
        epsilon=NUMBERS,
        seed=st.integers(-(2**63), 2**63 - 1),
        steps=st.lists(steps(text), max_size=4).map(tuple),
        final_observation=text,
        terminated=st.booleans(),
        truncated=st.booleans(),
        success=st.none() | st.booleans(),
        score=st.none() | NUMBERS,
        meta=st.dictionaries(text, text, max_size=3),
    )


def write_and_read(written: list[Trajectory]) -> tuple[list[Trajectory], int]:
    with TemporaryDirectory() as folder:
        with store.StoreWriter(folder, flush_every=2) as writer:
            for trajectory in written:
                writer.append(trajectory)
        return list(store.read(folder)), writer.mended


def test_columns_are_the_fields_of_a_trajectory_and_of_a_step() -> None:
    assert SCHEMA.names == [*Trajectory.model_fields, "return", "length"]
    assert [field.name for field in STEP] == list(Step.model_fields)


@settings(max_examples=40, deadline=None)
@given(st.lists(trajectories(st.text(max_size=8)), min_size=1, max_size=5, unique_by=lambda one: one.id))
def test_any_trajectory_comes_back_as_it_went_in(written: list[Trajectory]) -> None:
    back, mended = write_and_read(written)
    # By their text, not by ==, which says that nan is not nan and that 0.0 is -0.0.
    assert [repr(trajectory) for trajectory in back] == [repr(trajectory) for trajectory in written]
    assert mended == 0


@settings(max_examples=30, deadline=None)
@given(trajectories(st.text(max_size=4)), LONE_SURROGATES, st.text(max_size=4))
def test_unstorable_characters_are_replaced_and_counted(trajectory: Trajectory, broken: str, after: str) -> None:
    step = Step(observation=broken + after, admissible=("look", broken), action="look")
    spoiled = trajectory.model_copy(update={"goal": broken, "steps": (step,)})
    (back,), mended = write_and_read([spoiled])
    assert mended == 3  # the goal, the observation, the list of actions
    assert back.goal == "\ufffd" * len(broken)
    assert back.steps[0].observation == back.goal + after
    assert back.steps[0].admissible == ("look", back.goal)
    assert repr(back.model_copy(update={"goal": broken, "steps": (step,)})) == repr(spoiled)


def test_undecodable_bytes_cost_no_episode() -> None:
    rubbish = bytes(range(256)).decode("utf-8", "surrogateescape")
    back, mended = write_and_read([Trajectory(id="a", env="e", task_id="t", policy="p", goal=rubbish, steps=())])
    assert mended == 1
    assert back[0].goal == rubbish[:128] + "\ufffd" * 128


def test_long_texts_and_control_characters_come_back() -> None:
    long = "0123456789\x00\x1b[2J\r\n\u2028" * 700_000
    step = Step(observation=long, action="\x00\x07\x7f", response="\t")
    trajectory = Trajectory(id="a", env="e", task_id="t", policy="p", steps=(step,), final_observation=long)
    back, _ = write_and_read([trajectory])
    assert len(long) > 10 << 20
    assert back == [trajectory]


def test_return_and_length_are_there_without_opening_the_steps(tmp_path: Path) -> None:
    with store.StoreWriter(tmp_path) as writer:
        for number, rewards in enumerate([(), (1.0, 0.5), (float("inf"),)]):
            made = tuple(Step(observation="", action="", reward=reward) for reward in rewards)
            writer.append(Trajectory(id=str(number), env="e", task_id="t", policy="p", steps=made))
    table = pq.read_table(tmp_path, columns=["return", "length"])
    assert table["return"].to_pylist() == [0.0, 1.5, float("inf")]
    assert table["length"].to_pylist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"seed": 2**63}, "seed"),
        ({"steps": (Step(observation="", action="").model_copy(update={"token_ids": [2**31]}),)}, "token_ids"),
    ],
)
def test_a_number_too_big_for_its_column_names_the_episode(
    tmp_path: Path, fields: dict[str, object], column: str
) -> None:
    good = Trajectory(id="good", env="e", task_id="t", policy="p", steps=(Step(observation="", action=""),))
    bad = good.model_copy(update={"id": "big", **fields})  # a copy is not validated
    writer = store.StoreWriter(tmp_path)
    writer.append(good)
    writer.append(bad)
    with pytest.raises(InputError, match=rf"episode 'big' does not fit the store: {column}: "):
        writer.flush()


@pytest.mark.parametrize("fields", [{"seed": 2**63}, {"seed": -(2**63) - 1}, {"steps": [{"token_ids": [2**31]}]}])
def test_a_trajectory_cannot_be_made_that_the_store_cannot_hold(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"seed|token_ids"):
        Trajectory.model_validate({"id": "big", "env": "e", "task_id": "t", "policy": "p", "steps": (), **fields})
