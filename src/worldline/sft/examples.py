"""From episodes to training sequences.

In the `transcript` template a whole episode is one sequence with every action in it, so cloning reads each token once;
an episode over the budget is cut into windows that overlap by half, so that every action is learned once and with at
least half a window before it. In the other templates each step is a prompt of its own, as it is when the model acts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from worldline.policies import EncodedExample as Coded
from worldline.policies import Encoder
from worldline.policies.language_model.outcome_line import write_outcome
from worldline.sft.demonstrations import Demonstration
from worldline.sft.gradient import Example
from worldline.types import Exchange, InputError, Trajectory, Turn, turns

Target = Literal["action", "observation", "both"]


def texts(demonstrations: Sequence[Demonstration]) -> Iterator[str]:
    """All text of the episodes, for a tokenizer to be trained on."""
    for episode in (demonstration.episode for demonstration in demonstrations):
        yield episode.goal
        for step in episode.steps:
            yield step.observation
            yield f" {step.action}\n"
        yield episode.final_observation


def sequences(
    demonstrations: Sequence[Demonstration], encoder: Encoder, target: Target, outcome: bool = False
) -> list[Example]:
    """The training sequences of all episodes. To learn observations, a long episode loses its oldest steps.

    With `outcome` every answer of the world is followed by a line that says its reward and whether it was the last.
    """
    if target != "action" and encoder.template.chat:
        raise InputError(f"--target {target}: observations are learned from transcripts: give --prompt transcript")
    if outcome and target != "observation":
        raise InputError(f"--outcome: goes with --target observation, not {target}: no agent may see it")
    return [example for shown in demonstrations for example in _of_episode(shown, encoder, target, outcome)]


def _of_episode(shown: Demonstration, encoder: Encoder, target: Target, outcome: bool) -> Iterator[Example]:
    episode = with_outcomes(shown.episode) if outcome else shown.episode
    seen = list(turns(episode))
    if encoder.template.chat:
        for turn, step, learned in zip(seen, episode.steps, shown.learned, strict=True):
            if learned:
                yield _marked(encoder.example(turn, step.action), (True,))
    elif target == "action":
        yield from _windows(shown, seen, encoder)
    else:
        yield _learning_observations(episode, shown.learned if target == "both" else (), seen[-1], encoder)


def _windows(shown: Demonstration, seen: Sequence[Turn], encoder: Encoder) -> Iterator[Example]:
    """From the end backwards: each window learns its later half, and the one that reaches the start learns it all."""
    end = len(seen)
    while end > 0:
        coded = encoder.example(seen[end - 1], shown.episode.steps[end - 1].action)
        first = end - sum(now and not before for before, now in pairwise([False, *coded.is_action]))
        start = (first + end) // 2 if first > 0 else 0
        yield _marked(coded, [False] * start + list(shown.learned[start:end]))
        end = start


def _marked(coded: Coded, learned: Sequence[bool]) -> Example:
    """The last run of action tokens is the last action, learned or not as the last of `learned` says, and so on."""
    marks = list(coded.is_action)
    step = len(learned)
    for at in reversed(range(len(marks))):
        if coded.is_action[at]:
            if at + 1 == len(marks) or not coded.is_action[at + 1]:
                step -= 1
            marks[at] = learned[step]
    return Example(tuple(coded.ids), tuple(marks))


def _learning_observations(episode: Trajectory, learned: Sequence[bool], last: Turn, encoder: Encoder) -> Example:
    """The whole episode up to the world's last answer. What came before the first action nobody could predict.

    `learned` says which actions are learned beside the answers: none where it is empty.
    """
    past = (*last.history, Exchange(last.observation, episode.steps[-1].action))
    coded = encoder.example(replace(last, observation=episode.final_observation, history=past), "")
    length = len(coded.ids) - len(encoder.action(""))
    acted = Coded(coded.ids[:length], coded.is_action[:length])
    first = acted.is_action.index(True) if True in acted.is_action else length
    own = _marked(acted, learned or [False] * len(episode)).learned
    marks = (own[at] if action else at > first for at, action in enumerate(acted.is_action))
    return Example(tuple(acted.ids), tuple(marks))


def with_outcomes(episode: Trajectory) -> Trajectory:
    """The episode with a line of reward and end behind each of the world's answers."""
    last = len(episode) - 1
    observations = [
        write_outcome(observation, step.reward, at == last and episode.terminated)
        for at, (step, observation) in enumerate(zip(episode.steps, episode.next_observations, strict=True))
    ]
    steps = [
        step if at == 0 else step.model_copy(update={"observation": observations[at - 1]})
        for at, step in enumerate(episode.steps)
    ]
    return episode.model_copy(update={"steps": tuple(steps), "final_observation": observations[-1]})
