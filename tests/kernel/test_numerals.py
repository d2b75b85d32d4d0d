from hypothesis import given
from hypothesis import strategies as st

from worldline.kernel.numerals import NumberRanges, between, number_gap, numbered, shifted

SMALL = st.integers(0, 50)


def test_a_text_is_taken_apart_at_its_numbers() -> None:
    apart = numbered("Row 2, column 3.5 now.")
    assert apart.pieces == ("Row ", ", column ", " now.")
    assert apart.numbers == ("2", "3.5")
    assert apart.contexts == (("row", ","), ("column", "now"))


def test_numbers_move_as_they_moved_in_the_log() -> None:
    answer = shifted("You are at row 3, column 3.", "You are at row 2, column 3.", "You are at row 1, column 0.")
    assert answer == "You are at row 2, column 0."


def test_decimals_stay_decimals() -> None:
    assert shifted("It costs 2.5 coins.", "It costs 2 coins.", "It costs 7 coins.") == "It costs 7.5 coins."


def test_a_price_keeps_its_places_after_the_point() -> None:
    assert shifted("It costs 1.10 now.", "It costs 1.05 now.", "It costs 1.95 now.") == "It costs 2.00 now."


def test_a_number_with_more_digits_than_a_float_holds_is_a_large_one() -> None:
    long, longer = "9" * 400, "9" * 5000
    for one, other in ((long, "5"), ("5", long), (long, longer)):
        before, now = f"It is {one} now.", f"It is {other} now."
        assert shifted("It is 7 now.", before, now) != "It is 7 now."
        between("It is 7.", (before, "bid 3"), (now, "bid 4"))
        assert number_gap(before, now) >= 0
        assert NumberRanges([before]).hold(before)


def test_commas_join_thousands_and_large_numbers_are_whole() -> None:
    apart = numbered("You own 1,250, of 12,345.60 euros: 1,2 or 1,2345; 1700885445.")
    assert apart.numbers == ("1,250", "12,345.60", "1", "2", "1", "2345", "1700885445")
    assert numbered("You own 1,250 euros.").values == {("own", "euros"): 1250.0}
    assert numbered("It is 1700885445 now.").values == {("is", "now"): 1700885445.0}
    moved = shifted("You own 1,250 euros.", "You own 1,300 euros.", "You own 1,020 euros.")
    assert moved == "You own 970 euros."
    assert shifted("You own 980 euros.", "You own 930 euros.", "You own 1,020 euros.") == "You own 1,070 euros."
    assert number_gap("1,250 of 7", "250 of 7") == 500


def test_what_cannot_be_moved_is_none() -> None:
    assert shifted("Nothing.", "at 1.", "at 2.") is None, "the answer has no number"
    assert shifted("at 3.", "at 1.", "at 1.") is None, "nothing differs"
    assert shifted("at 0.", "at 4.", "at 2.") is None, "below zero"
    assert shifted("by 3 men", "at 1.", "at 2.") is None, "the words around it are not those of the answer"
    assert shifted("at 3. or at 4.", "at 1. or at 2.", "at 5. or at 6.") is None, "which of the two?"


@given(SMALL, SMALL, SMALL, SMALL)
def test_a_shift_keeps_the_difference(x: int, dx: int, now: int, y: int) -> None:
    moved = shifted(f"x is {x + dx}; y is {y}.", f"x is {x}; y is {y}.", f"x is {now}; y is {y}.")
    assert moved == (None if now == x else f"x is {now + dx}; y is {y}.")


def test_a_moved_number_keeps_the_zeros_before_it() -> None:
    assert shifted("[03:09] done.", "[03:06] page.", "[04:57] page.") == "[04:60] done."
    assert shifted("[03:09] done.", "[03:06] page.", "[01:01] page.") == "[01:04] done."
    assert shifted("[03:10] done.", "[03:07] page.", "[01:01] page.") == "[01:04] done.", "also where 10 has none"
    assert shifted("9 coins.", "10 coins.", "12 coins.") == "11 coins."


def test_a_number_between_two_others_keeps_its_share() -> None:
    """100 was shown, 60 was offered, 90 came back: three quarters of the way up."""
    then, now = ("I want 100 coins.", "offer 60"), ("I want 80 coins.", "offer 40")
    assert between("Say 90 then.", then, now) == "Say 70 then."
    assert between("Say 90.", then, ("I want 81 coins.", "offer 40")) == "Say 71.", "rounded: 70.75"
    assert between("Say 90.5.", then, now) == "Say 70.5."


def test_where_nothing_lies_between_is_none() -> None:
    then = ("I want 100 coins.", "offer 60")
    assert between("Say 90.", then, then) is None
    assert between("Say 90.", ("I want 60.", "offer 60"), ("I want 80.", "offer 40")) is None
    assert between("Say 90.", then, ("I want some.", "offer 40")) is None
    assert between("Say 90 or 80.", then, ("I want 80.", "offer 40")) is None
    assert between("Say 20.", then, ("I want 50.", "offer 10")) is None, "below zero"


@given(SMALL, SMALL, SMALL, SMALL, SMALL)
def test_between_is_a_linear_map(seen: int, done: int, share: int, seen_now: int, done_now: int) -> None:
    """A number at a share of the way is at the same share of the new way, to the nearest whole one."""
    if seen == done or (seen, done) == (seen_now, done_now):
        return
    value = done + share * (seen - done)
    expected = done_now + share * (seen_now - done_now)
    if value >= 0:
        moved = between(f"Say {value}.", (f"{seen}", f"{done}"), (f"{seen_now}", f"{done_now}"))
        assert moved == (f"Say {expected}." if expected >= 0 else None)


def test_ranges_hold_what_the_log_words_and_spans() -> None:
    ranges = NumberRanges(["at 3 of 9", "at 7 of 9", "gone", "at 5"])
    assert ranges.hold("at 5 of 9")
    assert ranges.hold("gone")
    assert not ranges.hold("at 8 of 9"), "never so high"
    assert not ranges.hold("at 5 of 8"), "always nine"
    assert not ranges.hold("lost")
    assert ranges.hold("at 5")
    assert not ranges.hold("at 6")
