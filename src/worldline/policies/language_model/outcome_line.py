"""The outcome line: the reward of a step and whether the episode ended, as a line after the world's answer.

For language models that play the world: `worldline sft --target observation --outcome` writes it into the training
text, and the language-model world model reads it from generated text. No agent ever sees it.
"""

import re
from typing import NamedTuple

_LINE = re.compile(r"\n\[reward (-?[0-9.]+(?:e[-+]?[0-9]+)?)(, the end)?\]$")


class AnswerWithOutcome(NamedTuple):
    """An answer without its outcome line; reward and end are None where it has none."""

    observation: str
    reward: float | None
    ended: bool | None


def write_outcome(observation: str, reward: float, ended: bool) -> str:
    """`observation` with its outcome line."""
    return f"{observation.strip()}\n[reward {reward:.3g}{', the end' if ended else ''}]"


def read_outcome(text: str) -> AnswerWithOutcome:
    """The parts that `write_outcome` joined; a text without a well-formed line is all observation."""
    match = _LINE.search(text)
    if match is None:
        return AnswerWithOutcome(text, None, None)
    try:
        return AnswerWithOutcome(text[: match.start()], float(match[1]), match[2] is not None)
    except ValueError:
        return AnswerWithOutcome(text, None, None)
