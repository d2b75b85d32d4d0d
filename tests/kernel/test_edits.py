import pytest

from worldline.kernel.edits import Change, EditRules, Views, applied, edit_between, openings, pieces
from worldline.kernel.phrases import Phrasing

PHRASING = Phrasing(frozenset({"go", "to", "take", "from", "look", "at"}))
CHAIR, GO = PHRASING.parse("look at chair"), (0, "go to chair", "On the chair you see a bowl, and a pen.")
FULL, EMPTY = "On the {0} you see a {1}, and a pen.", "On the {0} you see a pen."


def test_sentences_are_named_by_their_first_words() -> None:
    text = "You stand in a Hall now. On the big oak desk lies nothing! Go away now."
    assert openings(text) == (("you stand in a hall", 0), ("on the big oak desk", 25), ("go away now", 59))
    assert openings("Too short.") == ()


def test_a_view_is_the_latest_from_its_sentence_to_the_end() -> None:
    views = Views("You wake up at night. On the desk you see a cup.")
    views.add("On the desk you see nothing. It is late at night.", 3)
    assert views.get("on the desk you see") == ("On the desk you see nothing. It is late at night.", 3)
    assert views.get("you wake up at night") == ("You wake up at night. On the desk you see a cup.", 0)
    twin = views.copy()
    twin.add("You wake up at night again.", 4)
    assert views.get("you wake up at night") == ("You wake up at night. On the desk you see a cup.", 0)
    assert twin.get("you wake up at night") == ("You wake up at night again.", 4)


def test_an_edit_is_what_differs_with_its_neighbours() -> None:
    before, after = "you see a <0>, and a pen.", "you see a pen."
    edit = edit_between(before, after)
    assert edit == (Change("see", (" a", " <0>", ",", " and"), (), "a"),)
    pieces = ["you", " see", " a", " <0>", ",", " and", " a", " pen", "."]
    assert applied(edit, pieces) == ["you", " see", " a", " pen", "."]
    assert applied(edit, ["you", " see", " a", " pen", "."]) is None, "there is nothing to take out"
    assert edit_between(before, before) == ()


def test_an_edit_is_said_in_one_way_wherever_its_words_repeat() -> None:
    """Between "a pen, a" and "a cup, a" the same words may be taken out in three ways."""
    first = edit_between("you see a pen 1, a <0>, a cup 2, and a key 3.", "you see a pen 1, a cup 2, and a key 3.")
    other = edit_between("you see a jar 4, a <0>, a hat 2, and a box 1.", "you see a jar 4, a hat 2, and a box 1.")
    assert first == other == (Change("#", (",", " a", " <0>"), (), ","),)
    back = edit_between("you see a pen 1, a cup 2, and a key 3.", "you see a pen 1, a <0>, a cup 2, and a key 3.")
    assert back == (Change("#", (), (",", " a", " <0>"), ","),)


def test_what_changes_no_name_or_too_much_is_no_edit() -> None:
    assert edit_between("you see a pen", "you see a cup") is None
    assert edit_between("<0> one two three four five six", "seven eight nine ten eleven twelve <0>") is None


def test_long_texts_are_compared_between_their_first_and_last_difference() -> None:
    """Of a page only what changed counts; two pages that differ throughout have no edit, and are not compared."""
    page = " ".join(f"line {number}." for number in range(4000))
    edit = edit_between(f"{page} a <0>, and a pen. {page}", f"{page} a pen. {page}")
    assert edit == edit_between(f"line 3999. a <0>, and a pen. {page}", f"line 3999. a pen. {page}")
    assert edit
    assert applied(edit, pieces("x. a <0>, and a pen."))
    other = " ".join(f"row {number} <0>;" for number in range(4000))
    assert edit_between(page, other) is None


@pytest.fixture
def rules() -> EditRules:
    """Learned from two episodes in which a cup, or a fork, is taken from where it was seen."""
    rules = EditRules(PHRASING)
    for number, (thing, place) in enumerate((("cup", "desk"), ("fork", "shelf"))):
        rules.learn(
            number,
            [f"go to {place}", f"take {thing} from {place}", f"look at {place}"],
            [FULL.format(place, thing), "Taken.", EMPTY.format(place)],
            "You wake up.",
        )
    return rules


def test_a_view_is_recalled_as_it_was_and_as_it_must_have_changed(rules: EditRules) -> None:
    """A bowl on a chair: neither was ever logged. The log shows what taking does to a view."""
    views = Views("You wake up.")
    views.add(FULL.format("chair", "bowl"), 1)
    logged = "On the chair you see a lamp."
    related = [GO, (1, "take bowl from chair", "Taken.")]
    recalled = list(rules.recalled(logged, views, related, CHAIR))
    assert recalled == [(FULL.format("chair", "bowl"), False), (EMPTY.format("chair"), True)]


def test_a_view_with_which_nothing_was_done_is_as_it_was(rules: EditRules) -> None:
    views = Views(FULL.format("chair", "bowl"))
    logged = "On the chair you see a lamp."
    recalled = list(rules.recalled(logged, views, [], CHAIR))
    assert recalled == [(FULL.format("chair", "bowl"), False)]


def test_what_was_done_before_a_view_has_not_changed_it(rules: EditRules) -> None:
    views = Views("You wake up.")
    views.add(FULL.format("chair", "bowl"), 2)
    related = [GO, (1, "take bowl from chair", "Taken.")]
    recalled = list(rules.recalled("On the chair you see a lamp.", views, related, CHAIR))
    assert recalled == [(FULL.format("chair", "bowl"), False)]


def test_what_is_learned_later_counts_for_a_view_that_was_asked_for_before() -> None:
    rules, views = EditRules(PHRASING), Views(FULL.format("chair", "bowl"))
    question = "On the chair you see a lamp.", views, [(0, "take bowl from chair", "Taken.")], CHAIR
    assert list(rules.recalled(*question)) == [(FULL.format("chair", "bowl"), False)]
    rules.learn(
        0,
        ["go to desk", "take cup from desk", "look at desk"],
        [FULL.format("desk", "cup"), "Taken.", EMPTY.format("desk")],
        "You wake up.",
    )
    assert list(rules.recalled(*question))[1:] == [(EMPTY.format("chair"), True)]


def test_what_an_episode_shows_does_not_say_how_its_own_views_change() -> None:
    """In one episode the cup becomes a frog; in three others what is taken is gone."""
    rules, views = EditRules(PHRASING), Views(FULL.format("chair", "bowl"))
    actions = ["go to desk", "take cup from desk", "look at desk"]
    rules.learn(7, actions, [FULL.format("desk", "cup"), "Taken.", FULL.format("desk", "frog")], "You wake up.")
    question = "On the chair you see a lamp.", views, [(0, "take bowl from chair", "Taken.")], CHAIR
    frog, gone = (FULL.format("chair", "frog"), True), (EMPTY.format("chair"), True)
    assert list(rules.recalled(*question))[1:] == [frog]
    assert list(rules.recalled(*question, 7))[1:] == [], "nobody else has shown it"
    for number in (8, 9, 10):
        rules.learn(number, actions, [FULL.format("desk", "cup"), "Taken.", EMPTY.format("desk")], "You wake up.")
    assert list(rules.recalled(*question, 7))[1:] == [gone]
    assert list(rules.recalled(*question, 8))[1:] == list(rules.recalled(*question))[1:] == [gone], "two of three"


def test_a_view_that_was_never_shown_is_not_recalled(rules: EditRules) -> None:
    roof = PHRASING.parse("look at roof")
    assert list(rules.recalled("On the roof you see a cat.", Views("You wake up."), [], roof)) == []


def test_an_action_that_was_answered_otherwise_changes_nothing(rules: EditRules) -> None:
    """The log has nobody who was refused and then saw a change."""
    views = Views(FULL.format("chair", "bowl"))
    refused = [(0, "take bowl from chair", "No.")]
    recalled = list(rules.recalled("On the chair you see a lamp.", views, refused, CHAIR))
    assert recalled == [(FULL.format("chair", "bowl"), False)]


def test_a_view_of_something_else_is_not_recalled(rules: EditRules) -> None:
    """Texts that begin alike, but lack the name of the action or were shown by an action without it."""
    views = Views("You wake up.")
    views.add("You pick up the old cup from the desk.", 1)
    taken = [(0, "take cup from desk", "You pick up the old cup from the desk.")]
    fork, bed = PHRASING.parse("take fork from desk"), PHRASING.parse("take cup from bed")
    assert list(rules.recalled("You pick up the old fork from the desk.", views, taken, fork)) == []
    assert list(rules.recalled("You pick up the old cup from the bed.", views, taken, bed)) == []
    views.add("In it, you see a cup there.", 2)
    desk, shown = PHRASING.parse("go to desk"), [(1, "look at desk", "In it, you see a cup there.")]
    hat = "In it, you see a hat there."
    assert list(rules.recalled(hat, views, shown, desk)) == [("In it, you see a cup there.", False)]
    assert list(rules.recalled(hat, views, [], CHAIR)) == []
