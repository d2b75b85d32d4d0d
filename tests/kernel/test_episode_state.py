import random
from collections import Counter

import numpy as np
import pytest
from written_logs import Played, episode, state_after, walk

from worldline.kernel.bids import EpisodeBids
from worldline.kernel.episode_state import COLUMNS, FADING, EpisodeState
from worldline.kernel.model import KernelModel
from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import StepTable

TASKS = [
    episode(
        f"e{n}",
        "You see a hall.",
        [Played(f"take {thing}", f"You take the {thing}."), Played("bid 7", "Too low."), Played("look", "You see it.")],
        task=f"t{n}",
        goal=f"Bring me the {thing}.",
        listed=(f"take {thing}", "look"),
    )
    for n, thing in enumerate(("cup", "fork", "pan", "jar", "box", "hat", "net", "pot"))
]


@pytest.fixture
def state() -> EpisodeState:
    language = StepTable.of(TASKS).language
    return EpisodeState(language, "t0", "Bring me the cup.", "You see a hall.", ("look", "take cup"))


def test_a_name_that_nothing_has_shown_is_unseen(state: EpisodeState) -> None:
    phrases = {thing: state.language.phrasing.parse(f"take {thing}") for thing in ("cup", "fork")}
    assert list(state.unseen(phrases["cup"])) == [], "the goal has it"
    assert list(state.unseen(phrases["fork"])) == ["unseen 0"]
    assert list(state.unseen(Phrase("mail *", ("zed@hall.org",)))) == ["unseen 0"], "marks and a part are not enough"
    guessed = state.describe("take fork").relations
    advance(state, "look", "A fork lies there.")
    assert list(state.unseen(phrases["fork"])) == []
    assert guessed != state.describe("take fork").relations


def advance(state: EpisodeState, action: str, answer: str, listed: tuple[str, ...] | None = None) -> None:
    state.advance(state.describe(action), answer, 0.5, listed)


def same(state: EpisodeState, other: EpisodeState, action: str) -> set[str]:
    first, second = state.describe(action).codes, other.describe(action).codes
    return {name for name, equal in zip(COLUMNS, first == second, strict=True) if equal}


def test_where_the_words_of_an_action_stand_in_what_is_shown(state: EpisodeState) -> None:
    advance(state, "look", "For 250: the crowd says C. Your hunch is B, 95% sure.")
    assert state.standing("answer B") == ["1 hunch is *", "1 is * 95"]
    assert state.standing("answer 250") == ["1  for *", "1 for * the"]
    assert state.standing("sure") == ["0 b # *", "0 # * "], "numbers before it are blanked"
    assert state.standing("answer D") == []
    advance(state, "look", "One B, two B, three B, four B.")
    assert state.standing("b") == [
        "0  one *",
        "0 one * two",
        "0 b two *",
        "0 two * three",
        "0 b three *",
        "0 three * four",
    ]


def test_a_description_says_what_is_the_same(state: EpisodeState) -> None:
    other = state.copy()
    assert same(state, other, "look") == set(COLUMNS)
    advance(other, "look", "You see a hall.", ("look", "take cup"))
    changed = set(COLUMNS) - same(state, other, "look")
    assert changed == {"history", "last_two", "step", "path", "deeds"}, (
        "the observation is the same, what came before is not"
    )
    advance(state, "look", "You see a hall.", ("look", "take cup"))
    assert same(state, other, "look") == set(COLUMNS)


def test_two_ways_to_one_observation_differ_in_what_was_done_before(state: EpisodeState) -> None:
    other = state.copy()
    for action in ("look", "wait", "look"):
        advance(state, action, f"You {action}.", None)
    for action in ("wait", "wait", "look"):
        advance(other, action, f"You {action}.", None)
    assert set(COLUMNS) - same(state, other, "look") == {"history", "path", "deeds"}


def test_the_same_deeds_in_another_order_are_the_same_deeds(state: EpisodeState) -> None:
    other = state.copy()
    for action in ("look", "wait", "wait"):
        advance(state, action, "You do.", None)
    for action in ("wait", "look", "wait"):
        advance(other, action, "You do.", None)
    assert set(COLUMNS) - same(state, other, "look") == {"history", "path"}


def test_listed_actions_and_those_that_nearly_were(state: EpisodeState) -> None:
    assert state.offered("look")
    assert not state.offered("fly")
    state.likely_listed = {"fly": -2.0, "swim": -3.0}
    assert state.offered("fly")
    assert not state.offered("swim")
    state.listed = None
    assert state.offered("anything"), "nothing is listed: everything may be done"


def test_memory_fades_and_deeds_do_not(state: EpisodeState) -> None:
    texts, actions = state.language.observations, state.language.actions
    start, done = texts.vector(texts.id("You see a hall.")), actions.vector(actions.id("take cup"))
    answer = texts.vector(texts.id("You take the cup."))
    advance(state, "take cup", "You take the cup.")
    after = state.describe("look")
    expected = FADING * start + answer + done
    assert after.memory == pytest.approx(expected / np.linalg.norm(expected), rel=1e-4, abs=1e-6)
    assert after.deeds == pytest.approx(done, rel=1e-4, abs=1e-6)


def test_an_event_says_which_names_the_goal_has(state: EpisodeState) -> None:
    assert state.event("take cup") == "take *|1"
    assert state.event("take fork") == "take *|0"


def test_a_deed_with_a_name_of_the_goal_is_counted_by_the_word_before_that_name() -> None:
    actions = [f"{verb} {name}" for name in ("nut", "leek", "corn", "plum", "bean", "rice") for verb in ("add", "cut")]
    log = [episode(action, "Here.", [Played(action, "Done.")], task=action) for action in actions]
    goal = "Cook leek. Nobody may eat nut, a nut, or leek."
    state = EpisodeState(StepTable.of(log).language, "t", goal, "Here.", None)
    for action in ("add nut", "cut nut", "add nut", "add leek", "add salt"):
        state.advance(state.describe(action), "Done.", 0.0, None)
    assert state.role_counts == {"add */0 eat": 2, "cut */0 eat": 1, "add */0 cook": 1}, "where the goal has it first"


def test_facts_join_a_deed_and_a_sentence_by_their_word(gate_model: KernelModel) -> None:
    right, wrong = walk("r", "jade", "jade", 1), walk("w", "jade", "pearl", 1)
    fact = "take the * key ~ a note on the wall the * key fits"
    assert fact in state_after(gate_model, right, 2).deeds_and_sentences()
    assert fact not in state_after(gate_model, right, 1).deeds_and_sentences(), "nothing is taken yet"
    assert fact not in state_after(gate_model, wrong, 2).deeds_and_sentences()


def test_bids_remember_how_they_were_answered(state: EpisodeState) -> None:
    advance(state, "bid 7", "7 is too low.")
    advance(state, "look", "A clock shows 12.")
    assert state.bids.of == {"bid *": ((7.0, "<0> is too low."),), "look": ((7.0, "a clock shows #."),)}
    assert state.bids.named == ((7.0, "<0> is too low."),)
    assert (state.last_number, state.last_bid) == (12.0, 7.0)
    compared = list(state.relations(Phrase("bid *", ("9",)), ["bid", "9"], "bid 9"))[-4:]
    assert compared == ["shown 0 -1", "ratio 0 2 1", "ratio 0 4 3", "ratio 0 8 6"], "9 beside the 12 that is shown"


def test_a_copy_goes_its_own_way(state: EpisodeState) -> None:
    advance(state, "take cup", "You take the cup.", ("look",))
    before = state.describe("look")
    twin = state.copy()
    advance(twin, "bid 7", "You see a new sentence with a rare word: xylophone.", ("fly",))
    after = state.describe("look")
    assert (after.codes == before.codes).all()
    assert after.relations == before.relations
    assert state.deeds_and_sentences() == [] or "xylophone" not in str(state.deeds_and_sentences())
    assert (state.step, twin.step) == (1, 2)
    assert state.bids == EpisodeBids()
    assert "fly" not in state.last_listed
    assert "xylophone" not in state.words
    assert state.action_counts.total() == 1
    assert state.event_counts.total() == 1
    assert state.shown == {"You see a hall.", "You take the cup."}


def test_a_long_past_is_found_again_as_by_reading_it_all(state: EpisodeState) -> None:
    """What is indexed on the way, against the whole list of actions and answers."""
    rng = random.Random(0)
    actions = ["take cup", "take fork", "bid 7", "bid 8", "look", "take Cup"]
    for at in range(60):
        advance(state, rng.choice(actions), f"You do {rng.randrange(4)}.")
        parse = state.language.phrasing.parse
        phrases = [parse(action) for action in state.actions]
        assert state.action_counts == Counter(state.actions)
        assert state.event_counts == Counter(map(state.event, state.actions))
        assert state.shown == {"You see a hall.", *state.answers}
        for action in actions:
            same = [b for b, done in zip(state.answers, state.actions, strict=True) if done == action]
            assert state.answers_to.get(action, frozenset()) == set(same)
            names = {name.lower() for name in parse(action).names}
            assert state.related(parse(action)) == [
                at for at, other in enumerate(phrases) if names & {name.lower() for name in other.names}
            ]
            assert state.steps_of.get(parse(action).skeleton, ()) == tuple(
                at for at, other in enumerate(phrases) if other.skeleton == parse(action).skeleton
            )
        assert at + 1 == state.step
