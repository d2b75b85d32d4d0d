import numpy as np
import pytest
from scipy.sparse import csr_matrix

from worldline.kernel.vectors import NUMBERS, WIDTH, TextTable, WordWeights, distinct_columns, unit, used_columns

TEXTS = ["the red cup", "the blue cup", "the tall tree", "the old road"]


@pytest.fixture
def table() -> TextTable:
    return TextTable(WordWeights(TEXTS))


def test_the_words_of_a_vector_weigh_by_their_rarity() -> None:
    """One word alone is one entry; two make the angle that log(1 + n / count) gives."""
    weights = WordWeights(TEXTS)
    assert np.count_nonzero(weights.vector("cup")) == 1
    common, rare = np.log1p(4 / 4), np.log1p(4 / 1)
    both = weights.vector("the red")
    assert np.linalg.norm(both) == pytest.approx(1)
    assert abs(both @ weights.vector("red")) == pytest.approx(rare / np.hypot(common, rare), rel=1e-5)
    assert weights.vector("red THE, red!") == pytest.approx(both), "order, case, repetition and marks do not matter"
    assert not weights.vector("... !").any()


def test_rarity_is_the_share_of_texts_without_the_word() -> None:
    weights = WordWeights(TEXTS)
    assert [weights.rarity(word) for word in ("the", "cup", "road", "moon")] == [0.0, 0.5, 0.75, 1.0]


def test_unit_of_zeros_is_zeros() -> None:
    assert unit(np.array([3, 4], np.float32)).tolist() == pytest.approx([0.6, 0.8])
    assert not unit(np.zeros(WIDTH, np.float32)).any()


def test_every_text_keeps_its_number_and_vector(table: TextTable) -> None:
    """Also when there are more texts than there was room for at first."""
    texts = [f"text {n} of many" for n in range(700)]
    ids = [table.id(text) for text in texts]
    assert ids == list(range(700))
    assert [table.id(text) for text in texts] == ids
    assert table.texts == texts
    for n in (0, 255, 256, 699):
        assert table.vector(n) == pytest.approx(WordWeights(TEXTS).vector(texts[n]))
        assert table.numbers(n).tolist() == [n]


def test_cosines_are_dot_products(table: TextTable) -> None:
    ids = np.array([table.id(text) for text in TEXTS])
    expected = [float(table.vector(0) @ table.vector(n)) for n in range(4)]
    assert table.cosines(0, ids) == pytest.approx(expected)
    assert expected[0] == pytest.approx(1)


def test_gaps_between_numbers(table: TextTable) -> None:
    ids = np.array([table.id(text) for text in ("at 3 and 10", "at 5 and 9.5", "at 3", "nowhere")])
    assert table.number_gaps(0, ids).tolist() == [0.0, (2 + 0.5) / 2, np.inf, np.inf]
    assert table.number_gaps(3, ids).tolist() == [np.inf, np.inf, np.inf, 0.0]
    many = table.id("1 2 3 4 5 6")
    assert table.numbers(many).tolist() == [1.0, 2.0, 3.0, 4.0][:NUMBERS]
    assert table.number_gaps(many, np.array([table.id("1 2 3 4 5 7")])).tolist() == [0.0], "the first ones are compared"


def test_used_columns_are_those_of_numpy() -> None:
    ids = np.random.default_rng(0).integers(0, 40, 30).astype(np.int32)
    used, columns = used_columns(ids, 50)
    expected = np.unique(ids, return_inverse=True)
    assert (used == expected[0]).all()
    assert (columns == expected[1]).all()


def test_columns_that_are_alike_are_one_that_stands_for_all() -> None:
    rng = np.random.default_rng(0)
    different = np.unique(rng.integers(0, 2, (6, 200)), axis=1)
    different = different[:, different.any(0)]
    of = rng.integers(0, different.shape[1], 500)
    of[: different.shape[1]] = np.arange(different.shape[1])
    columns, alike, many = distinct_columns(csr_matrix(different[:, of].astype(float)))
    assert columns.shape == different.shape
    assert np.array_equal(columns.toarray()[:, alike], different[:, of])
    assert np.array_equal(many, np.bincount(alike))
    assert many.sum() == 500


def test_large_and_close_numbers_are_told_apart() -> None:
    table = TextTable(WordWeights(TEXTS))
    order, other, price = (table.id(text) for text in ("order 1,234,567,891", "order 1,234,567,890", "0.1"))
    assert table.numbers(order).tolist() == [1234567891.0]
    assert table.numbers(price).tolist() == [0.1]
    assert table.number_gaps(order, np.array([other, order])).tolist() == [1.0, 0.0]
