"""A few hundred mutants for every reader of other people's data; `make fuzz` runs many more."""

from random import Random

import pytest

from fuzz.readers import CORPUS, READERS
from fuzz.run import defects
from worldline import logs

MUTANTS = 300


@pytest.mark.parametrize("name", READERS)
def test_a_mutant_is_read_or_refused_in_one_line(name: str) -> None:
    assert list(defects(name, range(MUTANTS))) == []


@pytest.mark.parametrize("name", ["episodes", "chat", "jsonl", "inspect"])
def test_the_seeds_themselves_hold_episodes(name: str) -> None:
    for path in (CORPUS / name).iterdir():
        assert list(logs.read(name, path, on_bad=lambda row: None))


def test_a_mutant_is_named_by_its_number() -> None:
    for reader in READERS.values():
        seed = reader.seeds()[0]
        assert reader.mutant(seed, Random("a")) == reader.mutant(seed, Random("a"))
