"""Numbers as people read them."""

from worldline.number_text import probability


def test_no_probability_is_shown_as_certain() -> None:
    assert [probability(p) for p in (0.0, 0.0004, 0.5, 0.9951, 0.9996, 1.0)] == [
        "<0.001", "<0.001", "0.500", "0.995", ">0.999", ">0.999",
    ]  # packed lines read better  # fmt: skip
