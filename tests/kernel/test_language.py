import re

from hypothesis import given
from hypothesis import strategies as st
from written_logs import Played, episode

from worldline.kernel.language import (
    Language,
    code,
    first_number,
    idle_wordings,
    last_number,
    outline,
    own_words,
    recurring_numbers,
    sentences,
    wording,
)
from worldline.kernel.phrases import Phrase, Phrasing
from worldline.kernel.step_table import StepTable, replay


def test_numbers_of_a_text() -> None:
    assert first_number("bid 3 of 7.5") == 3
    assert last_number("bid 3 of 7.5") == 7.5
    assert first_number("pass") is None
    assert last_number("pass") is None


def test_numbers_are_as_large_as_they_are_written() -> None:
    assert first_number("offer 1,250 now") == last_number("I offer 1,250") == 1250
    assert first_number("set 1,250.5") == last_number("1,250.5") == 1250.5
    assert (first_number("pick 10,20"), last_number("pick 10,20")) == (10, 20), "two numbers"
    assert first_number("bid 12345678999") == 12345678999
    assert first_number("heat to -5") == last_number("it is -5") == -5
    assert (first_number("weeks 5-7"), last_number("weeks 5-7")) == (5, 7), "from one to the other"
    assert first_number("sum " + "9" * 400) == 1e30, "a large one"


@given(st.text("12,.a<_- ", max_size=20))
def test_numbers_are_found_wherever_they_stand(text: str) -> None:
    """By patterns that say at every place what a number is."""
    numbers = re.findall(r"(?:(?<!\S)-)?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?)", text)
    assert last_number(text) == (float(numbers[-1].replace(",", "")) if numbers else None)
    assert wording(text, Phrase("wait", ())) == re.sub(r"(?<!<)\b\d+(?:\.\d+)?", "#", text)


def test_a_wording_has_neither_numbers_nor_names() -> None:
    assert wording("You sell the Cup for 12.", Phrase("sell *", ("cup",))) == "you sell the <0> for #."
    assert wording("Mia pays 12 for the Cup.", Phrase("sell *", ("cup",), ("Mia",))) == "<g0> pays # for the <0>."


def test_a_code_is_the_same_for_the_same_parts_only() -> None:
    assert code("a", 1) == code("a", 1)
    assert code("a", 1) != code("a", "1")
    assert code("ab") != code("a", "b")
    assert 0 <= code("x") < 2**63


def test_long_actions_have_no_fillers() -> None:
    """An agent may write a whole file: each of its words would have an outline of the length of the file."""
    many = " ".join(f"word{n}" for n in range(41))
    steps = [Played("write short text", "Done."), Played(f"write {many}", "Done.")]
    language = StepTable.of([episode(f"e{n}", "A desk.", steps, task=f"t{n}") for n in range(3)]).language
    assert language.fillers(f"write {many}") == {}
    assert language.fillers("write rarely") == {"write *": "rarely", "* rarely": "write"}


def test_words_that_a_single_task_shows_are_no_part_of_a_sort() -> None:
    """Each task has a code of its own; "rejected" is in many. The action's name and numbers are blanked as ever."""
    log = [
        episode(
            f"t{at}",
            "Go.",
            [Played("push main", f"main: 9f{at:03d}c pushed in {at} s." if at % 3 else "main: rejected.")],
            task=f"t{at}",
        )
        for at in range(120)
    ]
    assert own_words(log) == {f"9f{at:03d}c" for at in range(120) if at % 3}
    language = StepTable.of(log).language
    pushed = {language.sort(e.next_observations[0], language.phrasing.parse("push main")) for e in log}
    assert pushed == {"main: ~ pushed in # s.", "main: rejected."}
    assert own_words(log[:99]) == frozenset(), "of few tasks any word may be in one"


def test_wordings_that_few_numbers_fill_are_told_apart_by_them() -> None:
    """Three scores twelve times each, and forty prices once each."""
    log = [episode(f"s{at}", "Go.", [Played("try", f"You score {at % 3}.")]) for at in range(36)]
    log += [episode(f"p{at}", "Go.", [Played("ask", f"It costs {at}.")]) for at in range(40)]
    phrasing = Phrasing.of(log)
    assert recurring_numbers(log, phrasing) == {"you score #.": {0}}


def test_of_several_numbers_those_that_recur_together_tell_answers_apart() -> None:
    """One or no test fails; how many pass is another number in each task."""
    log = [
        episode(f"e{at}", "Go.", [Played("test", f"{at % 2} failed, {100 + at} passed in 3 s.")], task=f"t{at}")
        for at in range(40)
    ]
    table = StepTable.of(log)
    assert table.language.recurring == {"# failed, # passed in # s.": {0, 2}}
    sorts = {table.language.sort(row.answer, phrase) for row, phrase in zip(table.rows, table.phrases, strict=True)}
    assert sorts == {"0 failed, # passed in 3 s.", "1 failed, # passed in 3 s."}


def language() -> Language:
    things = ("cup", "fork", "pan", "jar")
    return StepTable.of(
        [episode(t, "You see it.", [Played(f"take {t}", f"You see {t}.")], task=t) for t in things]
    ).language


def test_outlines_are_of_rare_words_in_short_sentences() -> None:
    """Every text has "you"; "cup" is rare."""
    text = f"You see a cup. {'far ' * 41}"
    assert ("cup", "you see a cup") in language().rare_words(text)
    assert {word for word, _ in language().rare_words(text)} == {"a", "cup"}
    assert outline("you see a cup", "cup") == "you see a *"


def test_sentences_are_their_words_without_numbers() -> None:
    assert sentences("Sent, 7 left.\nSubject: Invoice 2231! Really?") == ("sent # left", "subject invoice #", "really")
    assert sentences("") == ()


def test_fillers_are_the_wordings_of_an_action_without_one_rare_word() -> None:
    expected = {"* cup from cup": "take", "take * from *": "cup", "take cup * cup": "from"}
    assert language().fillers("Take cup from cup") == expected


def test_lists_have_a_code_and_a_shape() -> None:
    spoken = language()
    assert spoken.list_code(("take cup", "look")) == code(("take cup", "look"))
    assert spoken.list_code(None) == code(None)
    assert spoken.shape(("take cup", "take fork")) == spoken.shape(("take jar",)) != spoken.shape(("look",))


def test_what_leaves_the_list_as_it_was_is_no_use_of_a_thing() -> None:
    """A cup that is taken is in the hand, though one may then fail to take it from elsewhere."""
    cups = [f"cup {n}" for n in range(12)]
    log = [
        episode(
            cup,
            "A box.",
            [
                Played(f"take {cup} from box", "You have it.", listed=(f"drop {cup}",)),
                Played(f"take {cup} from shelf", "It is not there.", listed=(f"drop {cup}",)),
                Played("wait", "Dust.", listed=(f"drop {cup}",)),
            ],
            task=cup,
            listed=(f"take {cup} from box",),
        )
        for cup in cups
    ]
    table = StepTable.of(log)
    failed = "take cup * from shelf", "it is not there."
    assert idle_wordings(log, table.language.phrasing) == ({failed}, {failed})
    *_, (state, _, _) = replay(table.language, log[0], 0)
    assert state.last_use == {"0": ("take/0/", 0)}


def test_what_only_one_action_is_answered_is_of_some_effect_though_the_list_stays() -> None:
    """Washing changes nothing that can be done, nor does what is answered to all that fails."""
    both = ("wash cup 1", "dry cup 1")
    steps = [
        Played("wash cup 1", "You wash it.", listed=both),
        Played("dry cup 1", "Nothing happens.", listed=both),
        Played("wash cup 2", "Nothing happens.", listed=both),
        Played("dry cup 1", "You dry it.", listed=both),
        Played("wash cup 1", "You wash it.", listed=both),
    ]
    log = [episode(f"e{n}", "A cup.", steps, task=f"t{n}", listed=both) for n in range(12)]
    table = StepTable.of(log)
    idle, refused = idle_wordings(log, table.language.phrasing)
    assert {worded for _, worded in idle} == {"you wash it.", "you dry it.", "nothing happens."}
    assert {worded for _, worded in refused} == {"nothing happens."}
    *_, (state, _, _) = replay(table.language, log[0], 0)
    assert state.effective == [True, False, False, True, True]
