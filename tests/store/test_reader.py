"""Filters and scans against brute force, and a clear line for everything that is no good shard."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worldline import store
from worldline.store.schema import STEP
from worldline.types import InputError, Trajectory

Make = Callable[..., Trajectory]


@pytest.fixture
def log(tmp_path: Path, episode: Make) -> Path:
    folder = tmp_path / "log"
    with store.StoreWriter(folder, flush_every=4) as writer:
        for number, (policy, split, _) in enumerate(product(["expert", "random"], ["train", "seen"], range(4))):
            writer.append(episode(number, policy=policy, split=split))
    return folder


def message_of(work: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        work()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_filters_choose_what_a_plain_loop_chooses(log: Path) -> None:
    everything = list(store.read(log))
    for policies, splits, tasks, ids in product(
        [None, ["expert"], ["random", "expert"], ["nobody"], []],
        [None, ["seen"]],
        [None, ["t1", "t2"]],
        [None, {"e1", "e5", "e14"}],
    ):
        expected = [
            episode
            for episode in everything
            if (policies is None or episode.policy in policies)
            and (splits is None or episode.split in splits)
            and (tasks is None or episode.task_id in tasks)
            and (ids is None or episode.id in ids)
        ]
        assert list(store.read(log, policies=policies, splits=splits, tasks=tasks, ids=ids)) == expected
        table = store.scan(log, ["id", "length"], policies=policies, splits=splits, tasks=tasks, ids=ids)
        assert table.to_pylist() == [{"id": episode.id, "length": len(episode)} for episode in expected]


def test_one_field_of_the_steps_can_be_scanned_alone(log: Path) -> None:
    table = store.scan(log, ["steps.reward", "policy", "steps.action"])
    assert table.schema.field("steps").type == pa.list_(pa.struct({"action": pa.string(), "reward": pa.float64()}))
    assert [row["steps"] for row in table.to_pylist()] == [
        [{"action": step.action, "reward": step.reward} for step in episode.steps] for episode in store.read(log)
    ]


def test_a_filter_that_matches_nothing_gives_an_empty_table_of_the_same_shape(log: Path) -> None:
    columns = ["policy", "steps.reward"]
    empty = store.scan(log, columns, policies=["nobody"])
    assert (empty.num_rows, empty.schema) == (0, store.scan(log, columns).schema)


def test_several_folders_run_folders_and_single_shards_are_read_alike(tmp_path: Path, log: Path, episode: Make) -> None:
    with store.StoreWriter(tmp_path / "run" / "log") as writer:
        writer.append(episode(99))
    (tmp_path / "run" / "config.json").write_text("{}")
    assert [trajectory.id for trajectory in store.read(tmp_path / "run")] == ["e99"]
    assert store.ids(tmp_path / "run") == {"e99"}
    merged = [trajectory.id for trajectory in store.read([log, str(tmp_path / "run")])]
    assert merged == [f"e{number}" for number in range(16)] + ["e99"]
    assert store.count([log, tmp_path / "run"]) == 17
    assert store.count(store.shards(log)[0]) == 4


def test_a_log_that_another_tool_wrote_anew_is_read_if_the_columns_are_ours(tmp_path: Path, log: Path) -> None:
    table = pq.read_table(log)
    steps = table.schema.get_field_index("steps")
    large = pa.large_list(pa.struct([f.with_type(pa.large_string()) if f.type == pa.string() else f for f in STEP]))
    bare = table.set_column(steps, "steps", table["steps"].cast(large)).replace_schema_metadata(None)
    pq.write_table(bare, tmp_path / "anew.parquet")
    assert list(store.read(tmp_path / "anew.parquet")) == list(store.read(log))


def test_no_log_yet_has_no_ids(tmp_path: Path) -> None:
    assert store.ids(tmp_path) == set()
    assert store.ids(tmp_path / "absent") == set()


def test_missing_path_and_folder_without_shards(tmp_path: Path) -> None:
    for work in (store.read, store.count, store.check_unique, lambda path: store.scan(path, ["id"])):
        assert message_of(lambda work=work: work(tmp_path / "absent")) == f"{tmp_path / 'absent'}: no such log"
        assert message_of(lambda work=work: work(tmp_path)).startswith(f"{tmp_path}: holds no log")


def test_unknown_column(log: Path) -> None:
    assert "'steps.reward'" in message_of(lambda: store.scan(log, ["steps.rewards"]))


def test_repeated_episodes_are_found(log: Path) -> None:
    store.check_unique(log)
    assert message_of(lambda: store.check_unique([log, log])).endswith(
        "episode 'e0' is there 2 times (so are 15 more): give each log once"
    )
    assert len(list(store.read([log, log]))) == 32


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def write_a_text(path: Path) -> None:
    path.write_text("hello")


def write_nothing(path: Path) -> None:
    path.write_bytes(b"")


def write_other_columns(path: Path) -> None:
    pq.write_table(pa.table({"prompt": ["a"], "answer": ["b"]}), path)


def write_the_next_version(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"worldline.schema_version": "2"}), path)


def write_the_next_version_in_the_column_alone(path: Path) -> None:
    table = pq.read_table(path).replace_schema_metadata(None)
    versions = pa.array([2] * table.num_rows, pa.int32())
    pq.write_table(table.set_column(0, "schema_version", versions), path)


def write_a_column_of_another_type(path: Path) -> None:
    table = pq.read_table(path)
    numbers = pa.array([[{"observation": 1}]] * table.num_rows)
    pq.write_table(table.set_column(table.schema.get_field_index("steps"), "steps", numbers), path)


def write_a_row_without_id(path: Path) -> None:
    table = pq.read_table(path)
    nothing = pa.array([None] * table.num_rows, pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("id"), "id", nothing), path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (truncate, "broken shard"),
        (write_a_text, "broken shard"),
        (write_nothing, "broken shard"),
        (write_other_columns, "no worldline log: it has no column 'schema_version'"),
        (write_the_next_version, "schema version 2, this worldline reads version 1"),
        (write_the_next_version_in_the_column_alone, "schema version 2, this worldline reads version 1"),
        (write_a_column_of_another_type, "broken shard"),
        (write_a_row_without_id, "broken shard"),
    ],
)
def test_a_bad_shard_is_named_and_the_good_ones_stay_readable(
    log: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    shard = store.shards(log)[1]
    spoil(shard)
    message = message_of(lambda: list(store.read(log)))
    assert message.startswith(f"{shard}: ")
    assert reason in message
    bad: list[InputError] = []
    assert [episode.id for episode in store.read(log, on_bad=bad.append)] == [
        f"e{number}" for number in (*range(4), *range(8, 16))
    ]
    assert [str(error) for error in bad] == [message]


def test_a_flipped_byte_anywhere_is_an_error_or_harmless_but_never_another_episode(
    tmp_path: Path, episode: Make
) -> None:
    with store.StoreWriter(tmp_path) as writer:
        writer.append(episode(3, meta={"key": "value"}))
    (shard,) = store.shards(tmp_path)
    whole = shard.read_bytes()
    errors = 0
    for place in range(0, len(whole), 29):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert list(store.read(shard)) == [episode(3, meta={"key": "value"})]
        except InputError:
            errors += 1
    assert errors > len(whole) / 29 / 2
