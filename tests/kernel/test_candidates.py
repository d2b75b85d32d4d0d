"""What may be answered: logged texts, and adaptations of them that the log words."""

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_logs import Played, episode, shelves, state_after

from worldline.kernel.candidates import KINDS, candidates
from worldline.kernel.compared_rows import KEPT, ComparedRows, pool
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.features import NAMES
from worldline.kernel.model import KernelModel
from worldline.kernel.number_model import NOTHING_COMPUTED
from worldline.kernel.renamings import history_renaming, latest_phrases
from worldline.kernel.step_table import LeftOut, StepTable
from worldline.types import Trajectory

FOREIGN = NAMES.index("words that other goals give")
KITCHEN = [
    episode(
        f"e{n}",
        f"You stand at mile {n % 4}.",
        [
            Played("walk north", f"You stand at mile {n % 4 + 1}."),
            Played(f"take {thing} from {place}", f"You take the {thing} from the {place}."),
            Played(f"put {thing} in {place}", f"You put the {thing} in the {place}."),
            Played(f"look at {place}", f"On the big {place} now: the {thing}."),
        ],
        task=f"t{n}",
    )
    for n, (thing, place) in enumerate(
        zip(("cup", "fork", "pan", "jar", "hat", "net"), ("box", "bin") * 3, strict=True)
    )
]


@pytest.fixture(scope="module")
def kitchen() -> KernelModel:
    return KernelModel(KITCHEN)


def pooled(
    log: StepTable, state: EpisodeState, step: StepDescription, turn: int, left_out: LeftOut = None
) -> ComparedRows:
    """The rows that are compared with a step of an episode that is not logged."""
    return pool(log, state, step, turn, log.records(state, left_out, -1), left_out)


def offered(model: KernelModel, logged: Trajectory, steps: int, action: str, own: int = -1) -> dict[str, set[str]]:
    """The texts by the way each was made."""
    possible = model.consider(state_after(model, logged, steps), action, own=own).candidates
    texts: dict[str, set[str]] = {}
    for text, kind in zip(possible.texts, possible.kinds.tolist(), strict=True):
        texts.setdefault(KINDS[kind], set()).add(text)
    return texts


def test_what_another_goal_gives_to_an_answer_gives_way_to_what_ours_gives() -> None:
    """Also where the goals are not worded alike, and in answers to actions without names."""
    goals = "Teach {} at noon.", "At the school in the village {} wants to learn how one counts sheep."
    lessons = [
        episode(
            f"e{n}-{again}",
            "A bell rings.",
            [Played("ask", f"{pupil}: {'Two' if again else 'Three'} sheep.", 1.0)],
            task=f"t{n}",
            goal=goals[n % 2].format(pupil),
        )
        for n, pupil in enumerate(("Ada", "Ben", "Cleo", "Dan"))
        for again in range(2)
    ]
    model = KernelModel(lessons)
    here = offered(model, lessons[0], 0, "ask", own=0)
    assert {"Ada: Two sheep.", "Ada: Three sheep."} <= here["renamed by its place in the goal"]
    described = model.consider(state_after(model, lessons[0], 0), "ask", own=0)
    foreign = dict(zip(described.candidates.texts, described.features[:, FOREIGN].tolist(), strict=True))
    assert foreign["Ada: Three sheep."] == 0 < foreign["Ben: Three sheep."]
    assert len(set(described.wordings.of[[text.startswith("Ada") for text in described.candidates.texts]])) == 2


def test_the_words_most_tasks_share_are_the_skeleton(kitchen: KernelModel) -> None:
    assert kitchen.log.language.phrasing.parse("take cup from box").skeleton == "take * from *"


def test_an_action_that_was_never_done_is_answered_like_those_worded_alike(kitchen: KernelModel) -> None:
    texts = offered(kitchen, KITCHEN[0], 0, "take net from bin")
    assert texts["renamed"] >= {"You take the net from the bin."}
    assert "exact" in texts, "episode 5 did just that"
    texts = offered(kitchen, KITCHEN[0], 0, "take net from box")
    assert texts["renamed"] == {"You take the net from the box."}
    assert "exact" not in texts


def test_numbers_go_on_from_where_the_episode_is(kitchen: KernelModel) -> None:
    """Only episode 2 starts at mile 2: without it, the walks of others are moved there."""
    texts = offered(kitchen, KITCHEN[2], 0, "walk north", own=2)
    assert texts["exact"] == {"You stand at mile 1.", "You stand at mile 2.", "You stand at mile 4."}
    assert texts["shifted"] == texts["transferred"] == {"You stand at mile 3."}


def test_names_of_earlier_actions_are_exchanged_too(kitchen: KernelModel) -> None:
    """Looking at the bin after putting the hat: what others saw there was what they had put there."""
    strange = episode("x", "You stand at mile 0.", [Played("put hat in bin", "You put the hat in the bin.")], task="t0")
    texts = offered(kitchen, strange, 1, "look at bin", own=4)
    assert "On the big bin now: the hat." in texts["renamed by history"]
    state = state_after(kitchen, strange, 1)
    step, row = state.describe("look at bin"), 3  # episode 0 looked at the box, where it had put the cup
    renaming = kitchen.log.language.phrasing.renaming("look at box", "look at bin") or ()
    assert history_renaming(kitchen.log, row, latest_phrases(state), step, renaming) == (("box", "bin"), ("cup", "hat"))


def test_no_row_of_the_left_out_episode_is_in_the_pool(kitchen: KernelModel) -> None:
    for number, logged in enumerate(KITCHEN):
        for at, step in enumerate(logged.steps):
            state = state_after(kitchen, logged, at)
            left_out = kitchen.log.episode_of == number
            compared = pooled(kitchen.log, state, state.describe(step.action), 0, left_out)
            assert not left_out[compared.rows[compared.rows >= 0]].any()
            assert sorted(set(compared.rows[compared.rows < 0].tolist())) == sorted(
                -1 - b
                for b in range(at)
                if state.descriptions[b].phrase.skeleton == state.describe(step.action).phrase.skeleton
            )


def test_a_pool_is_bounded_and_its_rows_are_compared_with_the_step(shelf_model: KernelModel) -> None:
    log = shelf_model.log
    state = state_after(shelf_model, log.episodes[0], 0)
    step = state.describe("rest")
    compared = pooled(log, state, step, 5)
    assert len(compared) == KEPT < len(log)
    assert compared.same.tolist() == (log.codes[compared.rows] == step.codes).tolist()
    assert compared.compared[:, 2] == pytest.approx(log.memory[compared.rows] @ step.memory, abs=1e-5)
    expected = [
        len(log.relations[r] & step.relations) / len(log.relations[r] | step.relations)
        if log.relations[r] or step.relations
        else 1.0
        for r in compared.rows.tolist()
    ]
    assert compared.compared[:, 9] == pytest.approx(expected)


def test_a_candidate_is_made_from_its_row(shelf_model: KernelModel) -> None:
    log = shelf_model.log
    state = state_after(shelf_model, log.episodes[0], 3)
    step = state.describe(log.episodes[0].steps[3].action)
    compared = pooled(log, state, step, 0)
    possible = candidates(log, shelf_model.rules, state, step, compared, NOTHING_COMPUTED)
    assert (possible.rows == compared.rows[possible.places]).all()
    for text, row, kind in zip(possible.texts, possible.rows.tolist(), possible.kinds.tolist(), strict=True):
        if KINDS[kind] in ("exact", "other") and row >= 0:
            assert text == log.rows[row].answer
        if KINDS[kind] == "exact" and row >= 0:
            assert log.rows[row].action == step.action


WORDS = ("take", "put", "from", "in", "look", "at", "walk", "north", "cup", "net", "box", "bin", "7", "zebra")


def wordless(text: str, names: set[str]) -> str:
    """The text with every name of the log or the request, and every number, blanked."""
    blanks = re.sub(r"\w+", lambda m: "*" if m[0].lower() in names else m[0], text)
    return re.sub(r"(\*\s?)+", "*", re.sub(r"\d+", "*", blanks))


@given(
    st.integers(0, len(KITCHEN) - 1),
    st.integers(0, 4),
    st.one_of(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), st.text(string.printable, max_size=20)),
    st.integers(-1, len(KITCHEN) - 1),
)
def test_nothing_is_answered_that_the_log_does_not_word(number: int, steps: int, action: str, own: int) -> None:
    """Any request: its answers are worded as one of the log's, and have no word that is neither there nor asked for."""
    possible = _KITCHEN.consider(state_after(_KITCHEN, KITCHEN[number], steps), action, own=own).candidates
    logged = {text for e in KITCHEN for text in (e.steps[0].observation, *e.next_observations)}
    vocabulary = {word for text in logged for word in re.findall(r"\w+", text.lower())}
    names = {"cup", "fork", "pan", "jar", "hat", "net", "box", "bin"}
    names |= {
        word for name in _KITCHEN.log.language.phrasing.parse(action).names for word in re.findall(r"\w+", name.lower())
    }
    skeletons = {wordless(text, names) for text in logged}
    assert len(possible)
    for text in possible.texts:
        assert wordless(text, names) in skeletons
        words = {word for word in re.findall(r"\w+", text.lower()) if not word.isdigit()}
        assert words <= vocabulary | set(re.findall(r"\w+", action.lower()))


_KITCHEN = KernelModel(KITCHEN)


def test_what_the_task_has_answered_to_the_action_is_there_however_many_others_are_more_alike() -> None:
    """Moving shows nothing. In many tasks one moved and looked; in this one somebody looked at something else first."""
    kinds = [first + second for first in "abcdefghij" for second in "klmnopqrst"]
    assert len(kinds) > 2 * KEPT
    others = [
        episode(
            kind, "A hall.", [Played("go out", "You move."), Played("look", f"A {kind} yard.")], task=kind, goal="Look."
        )
        for kind in kinds
    ]
    steps = [Played("go out", "You move."), Played("sing", "La la."), Played("look", "A garden.")]
    log = StepTable.of([*others, episode("own", "A hall.", steps, task="own", goal="Look.")])
    state = EpisodeState(log.language, "own", "Look.", "A hall.", None)
    state.advance(state.describe("go out"), "You move.", 0.0, None)
    for turn in range(5):
        rows = pooled(log, state, state.describe("look"), turn).rows
        assert "A garden." in [log.rows[row].answer for row in rows if row >= 0]


def test_another_turn_looks_at_other_rows() -> None:
    """Where there are more alike rows than are kept, all get their turn."""
    model = KernelModel(shelves(30, seed=2))
    state = state_after(model, model.log.episodes[0], 0)
    seen = [frozenset(pooled(model.log, state, state.describe("rest"), turn).rows.tolist()) for turn in range(40)]
    resting = {at for at, row in enumerate(model.log.rows) if row.action == "rest"}
    assert len(resting) > KEPT
    assert len(set(seen)) > 1
    assert np.mean([len(rows & resting) for rows in seen]) == KEPT


def test_a_moved_number_is_none_of_those_that_the_action_names() -> None:
    """Whoever goes to door 5 is not told of door 4."""

    def view(door: int) -> str:
        return f"You reach door {door}. Door {door} is shut."

    walks = [[3, 4, 5], [6, 5, 4], [2, 3, 2], [7, 8, 9], [9, 8, 7], [4, 6, 8]]
    log = [
        episode(f"{n}", view(1), [Played(f"go to door {door}", view(door)) for door in walk], task=f"t{n % 3}")
        for n, walk in enumerate(walks)
    ]
    model = KernelModel(log)
    state = EpisodeState(model.log.language, "t0", "", view(6), None)
    texts = model.consider(state, "go to door 5").candidates.texts
    assert set(texts) == {view(5)}


def browsing(thing: str, other: str, task: str) -> Trajectory:
    """Find things, open one, read about it, go back to what was found."""
    hits = f"Hits: a {thing}, a {other}."
    steps = [
        Played(f"find {thing}", hits),
        Played(f"open {other}", f"Here it is, for sale: the {other}."),
        Played("read", f"All who have the {other} like it."),
        Played("back", hits),
        Played("leave", "Welcome!"),
    ]
    return episode(f"{thing}-{other}", "Welcome!", steps, task=task)


def test_an_action_without_names_is_answered_of_what_was_named_before() -> None:
    things = "lamp", "rug", "vase", "clock", "chair", "bowl"
    log = [browsing(thing, things[at - 1], f"t{at}") for at, thing in enumerate(things)]
    texts = offered(KernelModel(log), log[2], 2, "read", own=2)
    assert "All who have the rug like it." in texts["renamed by history"]


def test_what_repeats_an_earlier_answer_in_the_log_repeats_that_of_this_episode() -> None:
    """Back to the hits, which no other episode had, and to what was shown first."""
    things = "lamp", "rug", "vase", "clock", "chair", "bowl"
    log = [browsing(thing, things[at - 1], f"t{at}") for at, thing in enumerate(things)]
    model = KernelModel(log)
    assert model.log.repeated[:5].tolist() == [-2, -2, -2, 0, -1]
    assert "Hits: a vase, a rug." in offered(model, log[2], 3, "back", own=2)["recalled"]
    strange = episode("x", "Good morning!", [Played("find vase", "Hits: a vase, a rug.")], task="t2")
    assert "Good morning!" in offered(model, strange, 1, "leave")["recalled"]
