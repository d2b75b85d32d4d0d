import pytest

from worldline.kernel.analogies import Transfer, transferred

PACKED = (
    "The lamp goes in. Box 1 of 2 holds lamp. On the table: kettle, drum, clock.",
    "The kettle goes in. Box 1 of 2 holds lamp, kettle. On the table: drum, clock.",
)


def test_a_change_is_transferred_with_its_numbers() -> None:
    before, after = "You stand in room 2. Score 10.", "You stand in room 3. Score 15."
    assert transferred(before, after, "You stand in room 5. Score 40.") == Transfer("You stand in room 6. Score 45.", 0)


def test_a_change_of_words_is_transferred_where_they_stand() -> None:
    before, after = "The door is shut. A lamp is lit.", "The door is open. A lamp is lit."
    assert transferred(before, after, "The door is shut. It is dark.") == Transfer("The door is open. It is dark.", 0)
    assert transferred(before, after, "The door is locked. It is dark.") == Transfer("The door is open. It is dark.", 1)
    assert transferred(before, after, "You hear a bell.") is None, "nothing is like it"
    assert transferred(before, "Something else entirely happens here.", "The door is shut.") is None
    assert transferred(before, after, before) is None, "that is the logged answer itself"


def test_numbers_stop_at_zero() -> None:
    transfer = transferred("You have 9 coins left.", "You have 4 coins left.", "You have 2 coins left.")
    assert transfer == Transfer("You have 0 coins left.", 0)


def test_what_is_copied_is_copied_of_what_stands_there_now() -> None:
    """Another box, with other things in it, and other things on the table: on both sides, or on one."""
    for listed, left in (
        ("globe, kettle, rope", "globe, rope"),
        ("kettle, pan", "pan"),
        ("kettle, a, b, c", "a, b, c"),
    ):
        now = f"The radio goes in. Box 2 of 3 holds bell, radio. On the table: {listed}."
        then = f"The kettle goes in. Box 2 of 3 holds bell, radio, kettle. On the table: {left}."
        assert transferred(*PACKED, now) == Transfer(then, 1), "the radio had to go where the lamp had"


def test_what_is_not_there_is_not_taken_out() -> None:
    assert transferred(*PACKED, "The radio goes in. Box 2 of 3 holds radio. On the table: globe, rope.") is None


def test_a_line_is_put_in_after_what_was_added_meanwhile() -> None:
    before, after = "List:\n- milk", "List:\n- milk\n- eggs"
    assert transferred(before, after, "List:\n- tea\n- rum") == Transfer("List:\n- tea\n- rum\n- eggs", 0)


@pytest.mark.parametrize("texts", [("", " ", "\n"), (" ", "", "\t"), ("", "", "Hello."), ("Hello.", "", " ")])
def test_of_texts_without_words_nothing_is_transferred(texts: tuple[str, str, str]) -> None:
    assert transferred(*texts) is None


@pytest.mark.parametrize(
    ("before", "after", "now", "then"),
    [
        ("It is 10:58 now.", "It is 10:59 now.", "It is 10:01 now.", "It is 10:02 now."),
        ("Room 007 is free.", "Room 008 is free.", "Room 011 is free.", "Room 012 is free."),
    ],
)
def test_a_number_keeps_the_zeros_before_it(before: str, after: str, now: str, then: str) -> None:
    transfer = transferred(before, after, now)
    assert transfer == Transfer(then, 0)


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("The price is 1.05 now.", "The price is 1.10 now.", "The price is 1.95 now."),
        ("The price is 1,990 now.", "The price is 1,995 now.", "The price is 1,015 now."),
        ("It is 5 now, a b.", f"It is {'9' * 5000} now, a b.", "It is 7 now, a b."),
    ],
    ids=["decimals", "thousands", "many digits"],
)
def test_parts_of_a_number_are_not_moved_by_themselves(before: str, after: str, now: str) -> None:
    transfer = transferred(before, after, now)
    assert transfer == Transfer(after, 1), "what was put in is put in as it is"
