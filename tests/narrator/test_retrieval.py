"""The memory against the environment it remembers."""

import pytest

from worldline.narrator.admissible import listed_actions
from worldline.narrator.grammar import Grammar
from worldline.narrator.history import History
from worldline.narrator.retrieval import OWN, TASK, ContentsModel, TransitionIndex, recalled, replay, spliced
from worldline.types import Trajectory


@pytest.fixture(scope="module")
def index(log: list[Trajectory]) -> TransitionIndex:
    return TransitionIndex.of(Grammar.induce(listed_actions(log)), log)


def test_every_step_is_remembered_once(index: TransitionIndex, log: list[Trajectory]) -> None:
    assert [t.index for t in index.transitions] == list(range(sum(len(episode) for episode in log)))
    assert [t.answer for t in index.transitions[: len(log[0])]] == [
        *(step.observation for step in log[0].steps[1:]),
        log[0].final_observation,
    ]


def test_an_episode_is_never_answered_by_its_own_record(index: TransitionIndex, log: list[Trajectory]) -> None:
    for number in (0, 30, 60):
        episode = log[number]
        history = History(index.grammar, episode.task_id, episode.goal, episode.steps[0].observation, number)
        for candidate in index.candidates(history, episode.steps[0].action):
            assert candidate.source is None or candidate.source.episode != number
        for actions in index.known_places(history).values():
            assert actions


def test_most_answers_are_among_the_candidates(index: TransitionIndex, log: list[Trajectory]) -> None:
    """Leave one episode out: the true answer of a deterministic world is found in nearly all steps."""
    hits = total = own = 0
    for number in range(0, len(log), 4):
        for transition, history in _walk(index, log[number], number):
            candidates = index.candidates(history, transition.action)
            total += 1
            hits += any(candidate.text == transition.answer for candidate in candidates)
            own += any(candidate.near == OWN for candidate in candidates)
    assert total > 60
    assert hits / total > 0.9
    assert own


def test_other_houses_are_renamed_into_this_one(index: TransitionIndex, log: list[Trajectory]) -> None:
    """In a task of its own, only things that the action names or that other houses hold can turn up."""
    episode = log[0]
    history = History(index.grammar, "elsewhere", episode.goal, episode.steps[0].observation)
    place = next(action for action in episode.steps[0].admissible or () if action.startswith("go to"))
    candidates = index.candidates(history, place)
    assert candidates
    assert all(candidate.near != TASK for candidate in candidates)
    thing = index.grammar.parse(place).things[0]
    assert all(thing in candidate.text for candidate in candidates if candidate.source and candidate.source.valid)


def _walk(index: TransitionIndex, episode: Trajectory, number: int):  # type: ignore[no-untyped-def]
    history = History(index.grammar, episode.task_id, episode.goal, episode.steps[0].observation, number)
    for transition in replay(index.grammar, episode, number):
        yield transition, history
        history.advance(transition.action, transition.answer)


def test_splicing_keeps_the_new_beginning_and_the_old_view(log: list[Trajectory]) -> None:
    grammar = Grammar.induce(
        [*listed_actions(log), *(f"open safe {n}" for n in (1, 2)), "go to safe 2", "take cup 1 from safe 2"]
    )
    frame = "You arrive at safe 1. The safe 1 is open. In it, you see a pen 9."
    view = "You open the safe 1. The safe 1 is open. In it, you see a cup 1."
    assert spliced(frame, view, grammar) == "You arrive at safe 1. The safe 1 is open. In it, you see a cup 1."
    assert spliced("Nothing happens.", view, grammar) is None
    assert spliced(frame, "The safe 2 is open. In it, you see nothing.", grammar) is None


def test_what_was_taken_is_gone_and_what_was_put_is_there(log: list[Trajectory]) -> None:
    """Against the environment itself: every second visit to an open place, recalled from the first."""
    grammar = Grammar.induce(listed_actions(log))
    contents_model = ContentsModel.of(grammar, log)
    right = wrong = changed = 0
    for episode in log:
        history = History(grammar, episode.task_id, episode.goal, episode.steps[0].observation)
        answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
        for step, answer in zip(episode.steps, answers, strict=True):
            command = grammar.parse(step.action)
            if command.template == "go to *" and history.views(command.things[0]):
                # a frame with another content: all that may be kept of it is its first sentence
                frame = answer.partition(" you see ")[0] + " you see a statue 9."
                answers = recalled([frame], history, command.things[0], contents_model)
                if answers:
                    right += answers == [answer]
                    wrong += answers != [answer]
                    changed += bool(contents_model.changes(history, command.things[0], 0)[0])
            history.advance(step.action, answer)
    assert right >= 20
    assert changed >= 5
    assert wrong <= 0.02 * right
