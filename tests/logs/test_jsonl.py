"""What is exported comes back exactly, in JSON that any parser reads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import faults
from worldline import logs
from worldline.types import LARGEST_REWARD, InputError, Step, Trajectory

TEXT = st.text(max_size=6) | st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)
"""The second kind is what the `surrogateescape` handler makes of bytes that are not UTF-8."""
NUMBERS = st.floats()
REWARDS = NUMBERS.filter(lambda number: not LARGEST_REWARD < abs(number) < float("inf"))
STEPS = st.builds(
    Step,
    observation=TEXT,
    admissible=st.none() | st.lists(TEXT, max_size=2).map(tuple),
    action=TEXT,
    response=TEXT,
    reward=REWARDS,
    logprob=st.none() | NUMBERS.map(lambda value: -abs(value)),
    token_ids=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
    token_logprobs=st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
)
TRAJECTORIES = st.builds(
    Trajectory,
    id=TEXT,
    env=TEXT,
    task_id=TEXT,
    policy=TEXT,
    seed=st.integers(-(2**63), 2**63 - 1),
    steps=st.lists(STEPS, max_size=3).map(tuple),
    success=st.none() | st.booleans(),
    score=st.none() | NUMBERS,
    meta=st.dictionaries(st.text(max_size=3), TEXT, max_size=2),
)
ONE = Trajectory(id="a", env="e", task_id="t", policy="p", steps=(Step(observation="o", action="a", reward=1.0),))


def stored(text: str) -> str:
    """An id as the store keeps it."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TRAJECTORIES, min_size=1, max_size=3, unique_by=lambda one: stored(one.id)),
    st.sampled_from(["", ".gz", ".xz"]),
)
def test_any_trajectory_comes_back_as_it_went_out(exported: list[Trajectory], suffix: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"log.jsonl{suffix}"
        assert logs.export_jsonl(exported, path) == len(exported)
        assert [repr(back) for back in logs.read("jsonl", path)] == [repr(trajectory) for trajectory in exported]
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["a", "\udc80"])
def test_numbers_json_cannot_write_are_texts(tmp_path: Path, name: str) -> None:
    steps = tuple(Step(observation="", action="", reward=reward) for reward in (float("nan"), float("-inf")))
    logs.export_jsonl([ONE.model_copy(update={"id": name, "steps": steps})], tmp_path / "log.jsonl")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    row = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=refuse)
    assert [step["reward"] for step in row["steps"]] == ["NaN", "-Infinity"]


def test_a_failed_export_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("before")

    def broken() -> Iterator[Trajectory]:
        yield ONE
        raise InputError("a broken shard")

    with pytest.raises(InputError, match="a broken shard"):
        logs.export_jsonl(broken(), path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "log.jsonl"):
        with pytest.raises(InputError, match="folder"):
            logs.export_jsonl([ONE], path)


def test_names_can_be_given_anew_but_not_rewards(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    logs.export_jsonl([ONE], path)
    (back,) = logs.read("jsonl", path, options=logs.Options(policy="mine"))
    assert back == ONE.model_copy(update={"policy": "mine"})
    with pytest.raises(InputError, match="leave the options out"):
        list(logs.read("jsonl", path, options=logs.Options(reward="score")))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "a"}', "schema version None"),
        (
            ONE.model_copy(update={"schema_version": 2}).model_dump_json(),
            "schema version 2, this worldline reads version 1",
        ),
        ("[1]", "schema version|JSON object"),
        (ONE.model_dump_json().replace('"env"', '"world"'), "env: Field required"),
        (ONE.model_dump_json().replace('"reward":1.0', '"reward":NaN'), "steps.0.reward: not a finite number"),
        (ONE.model_dump_json().replace('"score":null', '"score":Infinity'), "score: not a finite number"),
        (ONE.model_dump_json().replace('"seed":0', f'"seed":{2**63}'), "seed: Input should be less than"),
        (
            ONE.model_dump_json().replace('"token_ids":null', f'"token_ids":[{2**31}]'),
            "token_ids.0: Input should",
        ),
        (ONE.model_dump_json().replace('"seed":0', f'"seed":{"9" * 5000}'), "a number of over 4,300 digits"),
        (ONE.model_dump_json(), "episode id 'a' is on line 1 already"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(ONE.model_dump_json() + "\n" + line + "\n")
    with pytest.raises(InputError, match=rf"line 2: .*({reason})"):
        list(logs.read("jsonl", path))


def test_a_repeated_id_is_a_bad_row_each_time(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    other = ONE.model_copy(update={"id": "b"})
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in (ONE, other, ONE, ONE, other)))
    bad: list[logs.BadRow] = []
    assert list(logs.read("jsonl", path, on_bad=bad.append)) == [ONE, other]
    assert [str(row) for row in bad] == [
        "line 3: episode id 'a' is on line 1 already",
        "line 4: episode id 'a' is on line 1 already",
        "line 5: episode id 'b' is on line 2 already",
    ]


@pytest.mark.parametrize("how", ["full", "killed"])
def test_whichever_call_fails_the_export_is_the_old_or_the_new_one(tmp_path: Path, how: faults.How) -> None:
    path = tmp_path / "log.jsonl.gz"

    def work() -> None:
        logs.export_jsonl([ONE], path)

    for number in range(faults.points(work)):
        logs.export_jsonl([ONE, ONE.model_copy(update={"id": "b"})], path)
        assert faults.broken(work, number, how) in (70, faults.KILLED)
        assert len(list(logs.read("jsonl", path))) in (1, 2)
    work()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
