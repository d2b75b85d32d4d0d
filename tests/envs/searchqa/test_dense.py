"""Dense retrieval with a small encoder of our own, against cosines computed one by one."""

import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from worldline.envs.searchqa.dense import Dense, embed, open_dense
from worldline.envs.searchqa.passage import Passage
from worldline.types import InputError


class Letters:
    """A text as its counts of letters."""

    def __init__(self, name: str = "") -> None:
        self.texts: list[str] = []

    def encode(self, sentences: list[str]) -> list[list[int]]:
        self.texts += sentences
        return [[text.lower().count(chr(97 + letter)) for letter in range(26)] for text in sentences]


PASSAGES = [Passage("t", text) for text in ("aaa bbb", "ccc", "abc abc", "zz y", "cab zz")]


def cosine(one: list[int], other: list[int]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)


@pytest.mark.parametrize("query", ["abc", "zzzy", "cc t"])
def test_best_cosine_first(query: str) -> None:
    encoder = Letters()
    wanted, *given = encoder.encode([query, *(f"t {passage.text}" for passage in PASSAGES)])
    order = sorted(range(len(PASSAGES)), key=lambda index: -cosine(wanted, given[index]))
    passages = Dense(PASSAGES, embed(PASSAGES, encoder), encoder).search(query, 3)
    assert passages == tuple(PASSAGES[index] for index in order[:3])


def test_vectors_are_made_once_and_e5_gets_its_prefixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Letters()
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = lambda name: encoder  # type: ignore[attr-defined]  # a module made here has no attributes
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    open_dense(PASSAGES, tmp_path, "intfloat/e5-base")
    assert encoder.texts[0] == "passage: t aaa bbb"
    encoder.texts.clear()
    assert len(open_dense(PASSAGES, tmp_path, "intfloat/e5-base").search("abc", 2)) == 2
    assert encoder.texts == ["query: abc"]
    assert np.load(next(tmp_path.iterdir())).shape == (5, 26)


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"pip install 'worldline\[dense\]'"):
        open_dense(PASSAGES, tmp_path, "some/model")
