"""From episodes to training sequences.

In the `transcript` template a whole episode is one sequence with every action in it, so cloning reads each token once;
in the others each step is a prompt of its own, as it is when the model acts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from worldline.policies import Encoder
from worldline.sft.clone import Example
from worldline.types import Exchange, InputError, Trajectory, Turn, turns

Target = Literal["action", "observation", "both"]


def texts(episodes: Sequence[Trajectory]) -> Iterator[str]:
    """All text of the episodes, for a tokenizer to be trained on."""
    for episode in episodes:
        yield episode.goal
        for step in episode.steps:
            yield step.observation
            yield f" {step.action}\n"
        yield episode.final_observation


def sequences(episodes: Sequence[Trajectory], encoder: Encoder, target: Target) -> list[Example]:
    """The training sequences of all episodes. An episode over the encoder's budget loses its oldest steps."""
    if target != "action" and encoder.template.chat:
        raise InputError(f"--target {target}: observations are learned from transcripts: give --prompt transcript")
    return [example for episode in episodes for example in _of_episode(episode, encoder, target)]


def _of_episode(episode: Trajectory, encoder: Encoder, target: Target) -> Iterator[Example]:
    seen = list(turns(episode))
    if encoder.template.chat:
        for turn, step in zip(seen, episode.steps, strict=True):
            yield _learning_actions(turn, step.action, encoder)
    elif target == "action":
        yield _learning_actions(seen[-1], episode.steps[-1].action, encoder)
    else:
        yield _learning_observations(episode, seen[-1], encoder, target)


def _learning_actions(turn: Turn, action: str, encoder: Encoder) -> Example:
    coded = encoder.example(turn, action)
    return Example(tuple(coded.ids), tuple(coded.is_action))


def _learning_observations(episode: Trajectory, last: Turn, encoder: Encoder, target: Target) -> Example:
    """The whole episode up to the world's last answer. What came before the first action nobody could predict."""
    past = (*last.history, Exchange(last.observation, episode.steps[-1].action))
    coded = encoder.example(replace(last, observation=episode.final_observation, history=past), "")
    length = len(coded.ids) - len(encoder.action(""))
    is_action = coded.is_action[:length]
    first = is_action.index(True) if True in is_action else length
    learned = [target == "both" if said else at > first for at, said in enumerate(is_action)]
    return Example(tuple(coded.ids[:length]), tuple(learned))
