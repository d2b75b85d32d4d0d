"""Which tokens of a chat template's tool messages are the tools' own words, and which the template puts around them.

On Qwen's template 13 tokens a turn say that a tool answers, and that the assistant is next. They are the same in every
turn: a loss that counts them measures the template, not the world.
"""

from collections.abc import Callable, Sequence
from typing import Any

from worldline.types import InputError

Message = dict[str, Any]
_MARK = "worldlineanswer{}x"


def answer_mask(
    tokenizer: Any, render: Callable[[Sequence[Message]], str], messages: Sequence[Message]
) -> tuple[list[int], list[bool]]:
    """The tokens of `render(messages)`, and whether each begins within the content of one of the messages.

    A token in which the content's end and the template's next word are one (`.\\n`) counts as content.
    """
    text = render(messages)
    spans = _spans(text, render, messages)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    starts = [start for start, _ in encoded["offset_mapping"]]
    within = [any(first <= start < last for first, last in spans) for start in starts]
    return list(encoded["input_ids"]), within


def _spans(text: str, render: Callable[[Sequence[Message]], str], messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Where the contents stand in `text`: a template may quote, trim or escape them, so that a search would not do.

    Each content is rendered among marks in the places of the others: the difference in length is its own.
    """
    marks = [_MARK.format(place) for place in range(len(messages))]
    blank = [{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)]
    marked = render(blank)
    pieces, rest = [], marked
    for mark in marks:
        piece, there, rest = rest.partition(mark)
        if not there or mark in rest:
            raise InputError(
                "the chat template does not write a tool's answer once, where it stands: PaW cannot see it"
            )
        pieces.append(piece)
    spans, position = [], 0
    for place, (piece, message, mark) in enumerate(zip(pieces, messages, marks, strict=True)):
        alone = [*blank[:place], message, *blank[place + 1 :]]
        length = len(render(alone) if len(messages) > 1 else text) - len(marked) + len(mark)
        if text[position : position + len(piece)] != piece:
            raise InputError("the chat template writes a tool's answer according to what it says: PaW cannot see it")
        spans.append((position + len(piece), position + len(piece) + length))
        position = spans[-1][1]
    return spans
