"""Numbers as people read them."""

from worldline.number_text import below, number, probability, signed


def test_no_probability_is_shown_as_certain() -> None:
    assert [probability(p) for p in (0.0, 0.0004, 0.5, 0.9951, 0.9996, 1.0)] == [
        "<0.001", "<0.001", "0.500", "0.995", ">0.999", ">0.999",
    ]  # packed lines read better  # fmt: skip


def test_what_is_under_a_limit_is_shown_under_it() -> None:
    assert [below(value, 50) for value in (29.0, 49.4, 49.6, 49.96)] == ["29", "49", "49.6", "49.96"]
    assert below(24.97, 25, 1) == "24.97"


def test_small_and_large_numbers_keep_their_digits() -> None:
    assert [number(value) for value in (0.0, 0.0625, 4.2e-11, 123456.0)] == ["0.000", "0.062", "4.2e-11", "1.2e+05"]
    assert [signed(value) for value in (0.0, -0.5, 4.2e-11)] == ["+0.000", "-0.500", "+4.2e-11"]
