"""The imagined world stays the same world: views come back, less what was taken, with what was put."""

from worldline.adwm.admissibility import listed_actions
from worldline.adwm.chronicle import Chronicle
from worldline.adwm.grammar import Grammar
from worldline.adwm.recall import Custom, recalled, spliced
from worldline.types import Trajectory


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
    custom = Custom.of(grammar, log)
    right = wrong = changed = 0
    for episode in log:
        chronicle = Chronicle(grammar, episode.task_id, episode.goal, episode.steps[0].observation)
        answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
        for step, answer in zip(episode.steps, answers, strict=True):
            command = grammar.parse(step.action)
            if command.template == "go to *" and chronicle.views(command.things[0]):
                # a frame with another content: all that may be kept of it is its first sentence
                frame = answer.partition(" you see ")[0] + " you see a statue 9."
                found = recalled([frame], chronicle, command.things[0], custom)
                if found:
                    right += found == [answer]
                    wrong += found != [answer]
                    changed += bool(custom.changes(chronicle, command.things[0], 0)[0])
            chronicle.advance(step.action, answer)
    assert right >= 20
    assert changed >= 5
    assert wrong <= 0.02 * right
