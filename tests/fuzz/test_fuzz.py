"""A few hundred mutants for every reader of other people's data; `make fuzz` runs many more."""

from random import Random

import pyarrow as pa
import pytest

from fuzz import readers
from fuzz.readers import CORPUS, READERS
from fuzz.run import defects
from worldline import logs

MUTANTS = 300


@pytest.mark.parametrize("name", READERS)
def test_a_mutant_is_read_or_refused_in_one_line(name: str) -> None:
    assert list(defects(name, range(MUTANTS))) == []


@pytest.mark.parametrize("name", list(logs.FORMATS))
def test_the_seeds_themselves_hold_episodes(name: str) -> None:
    for path in (CORPUS / name).iterdir():
        assert list(logs.read(name, path, on_bad=lambda row: None))


def test_a_table_that_parquet_cannot_hold_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow, drawn = pa.table({"success": pa.array([{}], pa.struct([]))}), []

    def table(seed: bytes, chance: Random) -> pa.Table:
        drawn.append(seed)
        return hollow

    monkeypatch.setattr(readers, "_table", table)
    seed = READERS["parquet"].seeds()[0]
    assert all(readers.shard(seed, Random(number)) for number in range(20))
    assert drawn


def test_a_mutant_is_named_by_its_number() -> None:
    for reader in READERS.values():
        seed = reader.seeds()[0]
        assert reader.mutant(seed, Random("b")) == reader.mutant(seed, Random("b"))
