import random
import re
from string import ascii_lowercase

from hypothesis import given
from hypothesis import strategies as st
from written_logs import Played, episode

from worldline.kernel.phrases import Phrase, Phrasing, blanked, renamed
from worldline.kernel.words import vocabulary, words
from worldline.types import Trajectory

PHRASING = Phrasing(frozenset({"take", "from", "put", "in"}))
NAMES = st.text(ascii_lowercase, min_size=1, max_size=6).filter(lambda word: word not in PHRASING.shared)


def test_an_action_is_taken_apart() -> None:
    assert PHRASING.parse("take cup 1 from shelf 2") == Phrase("take * from *", ("cup 1", "shelf 2"))
    assert PHRASING.parse("Take Cup 1 from shelf 2") == Phrase("take * from *", ("Cup 1", "shelf 2"))
    assert PHRASING.parse("sing in silver bells") == Phrase("sing in *", ("silver bells",)), "the first word is no name"
    assert PHRASING.parse("17") == Phrase("*", ("17",)), "unless it is a number"
    assert PHRASING.parse("") == Phrase("", ())
    assert PHRASING.parse("take cup 1 from shelf 2").verb == "take"


def test_words_that_most_tasks_share_are_no_names() -> None:
    """`go` is in 10 of 10 tasks, `near` in 9, `far` in 8, the places in one each."""
    log = [
        episode(
            f"e{n}", "", [Played(f"go {'near' if n else 'by'} {'far' if n > 1 else 'by'} place{n} 3", "")], task=f"t{n}"
        )
        for n in range(10)
    ]
    assert Phrasing.of(log).shared == {"go", "near"}


def test_actions_that_were_only_listed_count() -> None:
    log = [episode(f"e{n}", "", [Played("wait", "")], listed=("jump over it",), task=f"t{n}") for n in range(4)]
    assert Phrasing.of(log).shared == {"wait", "jump", "over", "it"}


def test_a_verb_of_few_tasks_has_words_of_its_own() -> None:
    """Two of ten tasks paint things with things: "with" is no name there. Twenty actions show it, nineteen do not."""
    painted = [f"paint {thing} {n} with {tool} {n}" for n in range(5) for thing in "ab" for tool in "xy"]

    def phrasing_of(listed: list[str]) -> Phrasing:
        tasks = [tuple(listed), tuple(listed), *[()] * 8]
        walks = [episode(f"e{n}", "", [Played("walk", "")], listed=some, task=f"t{n}") for n, some in enumerate(tasks)]
        return Phrasing.of(walks)

    assert phrasing_of(painted[:19]).parse("paint a 1 with y 2").skeleton == "paint *"
    phrasing = phrasing_of(painted)
    assert phrasing.shared == {"walk"}
    assert phrasing.parse("paint a 1 with y 2") == Phrase("paint * with *", ("a 1", "y 2"))
    assert phrasing.renaming("paint a 1 with y 2", "paint b 1 with y 2") == (("a 1", "b 1"),)
    assert phrasing.parse("walk with 3").names == ("with 3",), "of this verb, nobody has shown it"


def test_a_thing_that_every_task_has_is_a_name() -> None:
    """Every task has a bin, and things to put in and on others: a word of few actions of its verb is a name."""
    put = [f"put {thing} 1 {where} {place} 2" for thing in "abcde" for where in ("in", "on") for place in "uvwxy"]
    listed = (*put, "put a 1 in bin 1")
    phrasing = Phrasing.of([episode(f"e{n}", "", [Played("walk", "")], listed=listed, task=f"t{n}") for n in range(3)])
    assert {"bin", "in", "on"} <= phrasing.shared
    assert phrasing.parse("put b 2 in bin 1") == Phrase("put * in *", ("b 2", "bin 1"))
    assert phrasing.parse("put b 2 on bin 1") == Phrase("put * on *", ("b 2", "bin 1"))


def test_words_that_a_goal_gives_are_blanked_beside_the_names_of_the_action() -> None:
    pupils = ("Ada", "Ben", "Cleo", "Dan", "Eve") * 2
    visits = [
        episode(f"e{n}", "", [Played(f"ask {other}", f"{one}: {other} is out.")], task=f"t{n}", goal=f"Teach {one}.")
        for n, (one, other) in enumerate(zip(pupils[:-1], pupils[1:], strict=True))
    ]
    phrase = Phrasing.of(visits).parse_in("Teach ada.", "ask Ben")
    assert phrase == Phrase("ask *", ("Ben",), ("ada",))
    assert phrase.blanked("ADA: Ben and Cleo.") == "<g0>: <0> and Cleo."
    assert Phrasing.of(visits).parse_in("Teach ben.", "ask Ben").blanked("Ben: Hi.") == "<0>: Hi.", "a name stays one"


def test_verbs_are_no_words_that_a_goal_gives_but_who_is_spoken_to_is() -> None:
    """All begin an action with the pupil's name, or with "clean", which the goal has and the world repeats."""
    lessons = [
        episode(
            f"e{n}",
            "",
            [Played(f"{one}, look", f"{one}: Hm."), Played("clean it", "It is clean.")],
            task=one,
            goal=goal,
        )
        for n, one in enumerate(("Ada", "Ben", "Cleo", "Dan"))
        for goal in (f"Help {one} to clean.", f"Help {one}.")
    ]
    assert Phrasing.of(lessons).goal_words.words == {"ada", "ben", "cleo", "dan"}


def test_a_renaming_has_the_names_that_differ() -> None:
    assert PHRASING.renaming("take cup 1 from shelf 2", "take fork 3 from shelf 2") == (("cup 1", "fork 3"),)
    assert PHRASING.renaming("take cup 1 from shelf 2", "take cup 1 from shelf 2") == ()
    assert PHRASING.renaming("take cup 1 from shelf 2", "put cup 1 in shelf 2") is None


def test_names_are_replaced_all_at_once_and_as_whole_words() -> None:
    assert renamed("The cup is by the pan.", (("cup", "pan"), ("pan", "cup"))) == "The pan is by the cup."
    assert renamed("A cupboard, a CUP.", (("cup", "jug"),)) == "A cupboard, a jug."
    assert renamed("cup 1 and cup 12", (("cup", "jug"), ("cup 1", "fork 9"))) == "fork 9 and jug 12", "longest first"
    assert renamed("1.5 (a+b)", (("a+b", "c"),)) == "1.5 (c)", "names are no patterns"
    assert renamed("as it is", ()) == "as it is"


@given(
    st.text("aAbks1_ .(\u00e9\u00c9\u3010\u0130\u0131\u017f\u03a3\u212a", max_size=30),
    st.lists(st.text("abks1_ .\u00e9\u03c3", min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_names_are_found_as_a_pattern_finds_them(text: str, names: list[str]) -> None:
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    places = {name: f"<{place}>" for place, name in reversed([*enumerate(names)])}
    whole_words = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)
    assert blanked(text, names) == whole_words.sub(lambda match: places.get(match[0].lower(), match[0]), text)


@given(
    st.text("aAbks_ .,\u00e9\u0130\u017f\u03a3\u212a'", max_size=30),
    st.lists(st.tuples(st.text("abks_ ", min_size=1, max_size=3), st.text("aB,1\u03a3 ", max_size=3)), max_size=3),
)
def test_the_vocabulary_of_a_renamed_text_is_that_of_its_words(text: str, renaming: list[tuple[str, str]]) -> None:
    for long in (text, f"{text} {'- ' * 200}"):
        out = renamed(long, tuple(renaming))
        assert vocabulary(out) == frozenset(words(out))


def test_letters_that_patterns_take_for_others_break_nothing() -> None:
    assert blanked("\u0130stanbul and istanbul", ["Istanbul"]) == "\u0130stanbul and <0>"
    assert renamed("mo\u017fs on a Moss", (("moss", "fern"),)) == "mo\u017fs on a fern"


def test_names_are_blanked_by_their_place() -> None:
    assert blanked("You put Cup 1 in the pan.", ("cup 1", "pan")) == "You put <0> in the <1>."
    assert blanked("cup and cup", ("cup", "CUP")) == "<0> and <0>"
    assert blanked("nothing", ()) == "nothing"


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_renaming_leads_from_one_action_to_the_other(old: tuple[str, str], new: tuple[str, str]) -> None:
    """Whatever the names: but for one name in two places, which cannot become two."""
    first, second = (f"take {a} from {b}" for a, b in (old, new))
    renaming = PHRASING.renaming(first, second)
    assert renaming is not None
    if old[0] != old[1]:
        assert renamed(first, renaming) == second


def questions(tasks: int = 40) -> list[Trajectory]:
    """Guests are asked in many sentences, whose words are in few tasks each; the goal names the guests."""
    rng = random.Random(0)
    ways = ("What do you wear, {}?", "{}, show me your coat.", "May I see your coat, {}?", "{}, how are you dressed?")
    ways += ("I would like to see what {} has on.", "Tell me about your clothes, {}.", "Is that {} in the coat?")
    log = []
    for number in range(tasks):
        guests = [f"{first}{last}" for first, last in zip(rng.sample("ABCDEF", 3), rng.sample(ENDS, 3), strict=True)]
        pairs = [(rng.choice(ways), rng.choice(guests)) for _ in range(3)]
        steps = [Played(way.format(guest), f"{guest} wears a coat.") for way, guest in pairs]
        log.append(episode(f"e{number}", "It is late.", steps, goal=f"Ask {', '.join(guests)}.", task=f"t{number}"))
    return log


ENDS = [f"{vowel}{last}" for vowel in "aeiou" for last in ("da", "lin", "mund", "ric", "wen")]


def test_of_sentences_the_words_that_goals_give_are_the_names() -> None:
    log = questions()
    phrasing, guest = Phrasing.of(log), log[0].goal.split()[1].strip(",.")
    assert phrasing.parse(f"{guest}, show me your coat.") == Phrase("* show me your coat", (guest,))
    assert phrasing.parse(f"May I see your coat, {guest}?") == Phrase("may i see your coat *", (guest,))
    assert phrasing.parse("Ask 12 of them.") == Phrase("ask * of them", ("12",))
    renaming = phrasing.renaming(f"{guest}, show me your coat.", "Zo, show me your coat.")
    assert renaming is None, "no goal names Zo"


def test_actions_of_a_few_words_are_taken_apart_by_what_tasks_share() -> None:
    """Here goals name things, too, but no skeleton is saved by it."""
    log = [
        episode(f"e{n}", "A hall.", [Played(f"take {t}", f"You take the {t}.")], goal=f"Take {t}.", task=f"t{n}")
        for n, t in enumerate(("cup", "fork", "pan", "jar") * 5)
    ]
    phrasing = Phrasing.of(log)
    assert phrasing.names is None
    assert phrasing.parse("take cup") == Phrase("take *", ("cup",))
