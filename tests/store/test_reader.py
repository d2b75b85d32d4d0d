"""Filters and scans against brute force, and a clear line for everything that is no good shard."""

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worldline import store
from worldline.store.schema import SCHEMA, STEP
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


def test_a_policy_is_chosen_by_its_name_or_by_its_label(tmp_path: Path, episode: Make) -> None:
    makers = [("expert", 0.0), ("expert", 0.2), ("expert", 0.25), ("a@0.2", 0.0), ("a", 0.2)]
    with store.StoreWriter(tmp_path) as writer:
        for number, (policy, epsilon) in enumerate(makers):
            writer.append(episode(number, policy=policy, epsilon=epsilon))
    for policies, expected in [
        (["expert"], {"e0", "e1", "e2"}),
        ("expert", {"e0", "e1", "e2"}),
        (["expert@0.2"], {"e1"}),
        (["expert@0"], {"e0"}),
        (["expert@0.2", "expert@0.25"], {"e1", "e2"}),
        (["a@0.2"], {"e3", "e4"}),
        (["expert@0.3"], set()),
    ]:
        assert {trajectory.id for trajectory in store.read(tmp_path, policies=policies)} == expected
        assert set(store.scan(tmp_path, ["id"], policies=policies)["id"].to_pylist()) == expected
        if expected:
            store.check_policies(tmp_path, policies)
    assert message_of(lambda: store.check_policies(tmp_path, "expert@0.3")) == (
        "--policies: no episode has the policy 'expert@0.3': there are a@0.2, expert, expert@0.2, expert@0.25"
    )


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


def test_repeated_episodes_are_refused(log: Path) -> None:
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


def write_shard(folder: Path, episode: Make) -> Path:
    with store.StoreWriter(folder) as writer:
        writer.append(episode(3, meta={"key": "value"}))
        writer.append(episode(4, success=True, score=0.5))
    (shard,) = store.shards(folder)
    return shard


def test_a_byte_changed_anywhere_in_a_shard_is_an_error(tmp_path: Path, episode: Make) -> None:
    shard = write_shard(tmp_path / "whole", episode)
    whole = shard.read_bytes()
    chance = random.Random(0)
    places = {*range(16), *range(len(whole) - 100, len(whole)), *chance.sample(range(len(whole)), 200)}
    for number, place in enumerate(sorted(places)):
        flipped = whole[place] ^ (1 << chance.randrange(8))
        mutant = tmp_path / str(number) / shard.name
        mutant.parent.mkdir()
        mutant.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        assert message_of(lambda mutant=mutant: list(store.read(mutant))).startswith(f"{mutant}: ")


def test_a_shard_that_changed_is_named_and_the_good_ones_stay(tmp_path: Path, log: Path) -> None:
    shard = store.shards(log)[2]
    assert len(list(store.read(log))) == 16
    table = pq.read_table(shard)
    pq.write_table(table.slice(1), shard)  # a good Parquet file, but not the one that was written
    line = message_of(lambda: store.ids(log))
    assert line.startswith(f"{shard}: broken shard: its bytes are not those that were written")
    bad: list[InputError] = []
    assert len(list(store.read(log, on_bad=bad.append))) == 12
    assert len(bad) == 1
    shard.rename(log / "mine.parquet")  # whoever changed it on purpose renames it
    assert len(list(store.read(log))) == 15


def test_shards_without_a_digest_in_their_name_are_read_too(tmp_path: Path, episode: Make) -> None:
    shard = write_shard(tmp_path, episode)
    shard.rename(tmp_path / f"{1:020d}-0123456789ab.parquet")  # as names were before
    assert store.ids(tmp_path) == {"e3", "e4"}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("meta", None, "column 'meta' holds a null"),
        ("env", None, "column 'env' holds a null"),
        ("task_id", None, "column 'task_id' holds a null"),
        ("id", None, "column 'id' holds a null"),
        ("meta", [{"key": "a", "value": None}], "column 'meta.value' holds a null"),
        ("meta", [None], "column 'meta' holds a null"),
        ("steps", [{"observation": "", "action": "", "reward": None}], "column 'steps.reward' holds a null"),
        ("steps", [{"observation": "", "action": "", "admissible": [None]}], "column 'steps.admissible.item' holds"),
    ],
)
def test_a_null_that_another_tool_wrote_names_the_shard_and_the_column(
    tmp_path: Path, episode: Make, column: str, value: object, reason: str
) -> None:
    table = pq.read_table(write_shard(tmp_path / "whole", episode))
    if column == "steps":  # the fields that are not given are good ones
        value = [{**table["steps"].to_pylist()[0][0], **step} for step in value]
    values = pa.array([table[column].to_pylist()[0], value], SCHEMA.field(column).type)
    path = tmp_path / "foreign.parquet"
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, values), path)
    whole = message_of(lambda: list(store.read(path)))
    assert whole.startswith(f"{path}: {reason}")
    assert message_of(lambda: store.scan(path, [column])) == whole
    if column == "task_id":  # a filter does not pass over it
        assert message_of(lambda: store.scan(path, ["policy"], tasks=["t0"])) == whole


def test_a_shard_whose_steps_have_no_such_field_is_one_line(tmp_path: Path) -> None:
    episode = {"id": ["a"], "steps": pa.array([[{"other": 1.0}]])}
    pq.write_table(pa.table(episode), tmp_path / "part.parquet")
    with pytest.raises(InputError, match=r"part\.parquet"):
        store.scan(tmp_path, ["id", "steps.reward"])
