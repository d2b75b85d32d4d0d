"""What a step earned and whether it was the last, as a line behind the world's answer.

For language models that play the world: `worldline sft --target observation --outcome` writes it into what is learned,
and a world model of text reads it back from what is generated. No agent ever sees it.
"""

import re
from typing import NamedTuple

_LINE = re.compile(r"\n\[reward (-?[0-9.]+(?:e[-+]?[0-9]+)?)(, the end)?\]$")


class Heard(NamedTuple):
    """An answer taken apart; reward and end are None where no line says them."""

    observation: str
    reward: float | None
    ended: bool | None


def told(observation: str, reward: float, ended: bool) -> str:
    """The answer with its line."""
    return f"{observation.strip()}\n[reward {reward:.3g}{', the end' if ended else ''}]"


def heard(text: str) -> Heard:
    """What `told` said; a text without a well-formed line is all observation."""
    found = _LINE.search(text)
    if found is None:
        return Heard(text, None, None)
    try:
        return Heard(text[: found.start()], float(found[1]), found[2] is not None)
    except ValueError:
        return Heard(text, None, None)
