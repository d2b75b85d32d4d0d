from worldline.kernel.bids import EpisodeBids, among, neighbours
from worldline.kernel.phrases import Phrase

CHECKOUT, TEST = (lambda number: Phrase("checkout *", (str(number),))), Phrase("test", ())


def test_the_nearest_bids_on_both_sides() -> None:
    bids = [(3.0, "too low"), (5.0, "nearly"), (16.0, "too high")]
    assert list(neighbours(6.0, bids)) == [
        "below nearly 1",
        "above too high 6",  # a gap of 10: 3 + log2(10)
        "between nearly 1 and too high 6",
        "beyond nearly",
        "short of too high",
        "amid nearly and too high",
    ]
    assert next(iter(neighbours(2.0, bids))) == "below none"
    assert next(iter(neighbours(5.0, bids))) == "below nearly 0"


def test_an_action_that_names_nothing_is_about_the_latest_number() -> None:
    bids = EpisodeBids()
    assert bids.about(TEST, "test") is None
    assert bids.after(TEST, "test", "no") is bids
    bids = bids.after(CHECKOUT(57), "checkout 57", "at <0>").after(TEST, "test", "1 failed")
    assert bids == EpisodeBids(
        {"checkout *": ((57.0, "at <0>"),), "test": ((57.0, "1 failed"),)}, ((57.0, "at <0>"),), 57.0
    )
    assert bids.about(TEST, "test") == 57
    assert bids.about(Phrase("read *", ("notes",)), "read notes") is None, "it is about the notes"
    assert bids.after(Phrase("read *", ("notes",)), "read notes", "so") is bids
    assert bids.like(TEST, "test") == ((57.0, "1 failed"),)
    assert bids.like(CHECKOUT(3), "checkout 3") == ((57.0, "at <0>"),)


def test_only_the_latest_bids_are_remembered() -> None:
    bids = EpisodeBids()
    for number in range(20):
        bids = bids.after(CHECKOUT(number), f"checkout {number}", "at <0>")
    assert [number for number, _ in bids.named] == [*range(11, 20)]
    assert bids.of["checkout *"] == bids.named


def test_a_number_lies_among_those_of_the_task_and_of_the_episode_by_what_was_tried() -> None:
    own = EpisodeBids().after(CHECKOUT(40), "checkout 40", "at <0>").after(TEST, "test", "0 failed")
    of_task = {"test": [(60.0, "1 failed")], "blame *": [(50.0, "no")]}
    blamed = list(among(own, of_task, Phrase("blame *", ("52",)), "blame 52"))
    assert "task beyond no" in blamed
    assert "of test amid 0 failed and 1 failed" in blamed, "of the episode and of the task"
    assert "of checkout * beyond at <0>" in blamed
    tested = list(among(own, of_task, TEST, "test"))
    assert "task amid none and 1 failed" in tested, "tested at 40 now"
    assert "all amid 0 failed and 1 failed" in tested
    assert list(among(EpisodeBids(), of_task, TEST, "test")) == []
