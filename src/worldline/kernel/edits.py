"""What is seen again, and how it has changed since: edits that the log shows between two views of the same thing.

A view is a text from the beginning of one of its sentences to its end; it is seen again when a later answer has a
sentence that begins alike. The log shows how one action in between changes a view ("take <0> from <1>" takes
"a <0>, and" out of it): these changes are learned as edits of words, and applied to the views of an episode under way.
"""

import difflib
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from worldline.kernel.phrases import Phrase, Phrasing, blanked

_END = re.compile(r"[.!?]\s+")
_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"\s*(?:<\d+>|\w+|[^\w\s])")
_OPENING, _FEWEST, _VIEWS = 5, 3, 6
"""Words that name a sentence, the fewest that do, and the sentences of a text that are looked at."""
_CHANGES, _LONGEST, _COMPARED, _EDITS = 2, 10, 120, 8
"""Places that one edit changes at most, the words in them, the words between the first and the last that differ, and
the edits of an event that are tried."""
_KEPT = 1 << 14
"""Changed views that are kept at most."""
_SAME = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One place: the words before and after it, what is taken out and what is put in."""

    left: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    right: str


Edit = tuple[Change, ...]
Event = tuple[str, str]
"""What an action was and how it was answered, less the names: the same action may have done something or not."""


@functools.lru_cache(maxsize=1 << 14)
def openings(text: str) -> tuple[tuple[str, int], ...]:
    """The first words of each sentence, and where it begins."""
    starts = [0, *(match.end() for match in itertools.islice(_END.finditer(text), _VIEWS - 1))]
    named = [(_WORD.findall(text[at : at + 120].lower())[:_OPENING], at) for at in starts]
    return tuple((" ".join(words), at) for words, at in named if len(words) >= _FEWEST)


class Views:
    """The latest view of each thing in an episode, and the step at which it was seen."""

    def __init__(self, text: str) -> None:
        self._seen: dict[str, tuple[str, int]] = {name: (text[at:], 0) for name, at in openings(text)}

    def get(self, name: str) -> tuple[str, int] | None:
        return self._seen.get(name)

    def add(self, text: str, step: int) -> None:
        self._seen |= {name: (text[at:], step) for name, at in openings(text)}

    def copy(self) -> "Views":
        twin = Views.__new__(Views)
        twin._seen = dict(self._seen)
        return twin


class EditRules:
    """How often an action of each skeleton, answered so, changed a view in each way; less often without one episode."""

    def __init__(self, phrasing: Phrasing) -> None:
        self._phrasing = phrasing
        self._counts: dict[Event, Counter[Edit | None]] = defaultdict(Counter)
        self._of_episode: dict[tuple[int, Event], Counter[Edit | None]] = defaultdict(Counter)
        self._after: dict[tuple[str, str, str, int], str] = {}
        """Views after an action that are computed already."""

    def learn(self, episode: int, actions: Sequence[str], answers: Sequence[str], start: str) -> None:
        """From one episode: its actions, what was answered to each, and what was seen first."""
        views = Views(start)
        self._after.clear()
        for step, (action, answer) in enumerate(zip(actions, answers, strict=True)):
            for name, at in openings(answer):
                earlier = views.get(name)
                if earlier is None:
                    continue
                between = [one for one in range(earlier[1], step) if self._sharing(actions[one], action)]
                if len(between) == 1:
                    phrase = self._phrasing.parse(actions[between[0]])
                    edit = edit_between(blanked(earlier[0], phrase.names), blanked(answer[at:], phrase.names))
                    event = _event(phrase, answers[between[0]])
                    self._counts[event][edit] += 1
                    self._of_episode[episode, event][edit] += 1
            views.add(answer, step + 1)

    def _sharing(self, one: str, other: str) -> bool:
        """Whether two actions share a name."""
        return not set(self._phrasing.parse(one).lowered).isdisjoint(self._phrasing.parse(other).lowered)

    def recalled(
        self, text: str, views: Views, related: Sequence[tuple[int, str, str]], phrase: Phrase, own: int = -1
    ) -> Iterable[tuple[str, bool]]:
        """`text` with what this episode has shown in its place: as it was, and as it must have changed since (True).

        What episode `own` of the log shows is left out, -1: nothing is.

        `phrase` is the action that is answered; `related` are the steps of the episode that share a name with it, their
        actions and answers. A view that none of these showed, or that lacks a name which text and action have, is of
        something else.
        """
        names = [name for name in phrase.names if _has(text, name)]
        shown_at = {0, *(step + 1 for step, _, _ in related)}
        for opening, at in openings(text):
            view, seen = views.get(opening) or ("", -1)
            if seen not in shown_at or not all(_has(text[:at] + view, name) for name in names):
                continue
            if text[at:] != view:
                yield text[:at] + view, False
            changed = view
            for step, action, answer in related:
                changed = self._changed(changed, action, answer, own) if step >= seen else changed
            if changed not in (view, text[at:]):
                yield text[:at] + changed, True

    def _changed(self, view: str, action: str, answer: str, own: int) -> str:
        """The view after an action: by the most frequent edit of its event that can be made."""
        phrase = self._phrasing.parse(action)
        event = _event(phrase, answer)
        of_own = self._of_episode.get((own, event))
        key = view, action, answer, own if of_own else -1
        changed = self._after.get(key)
        if changed is None:
            counts = self._counts[event] if of_own is None else self._counts[event] - of_own
            pieces = _PIECE.findall(blanked(view, phrase.names))
            for edit, _ in counts.most_common(_EDITS):
                edited = applied(edit, pieces) if edit else None
                if edited is not None:
                    pieces = edited
                    break
            if len(self._after) >= _KEPT:
                self._after.clear()
            changed = self._after[key] = "".join(_filled(piece, phrase.names) for piece in pieces)
        return changed


@functools.lru_cache(maxsize=1 << 14)
def _event(phrase: Phrase, answer: str) -> Event:
    return phrase.skeleton, " ".join(_WORD.findall(blanked(answer[:200], phrase.names).lower())[:_OPENING])


@functools.lru_cache(maxsize=1 << 14)
def _has(text: str, name: str) -> bool:
    return blanked(text, (name,)) != text


def _filled(piece: str, names: Sequence[str]) -> str:
    bare = piece.lstrip()
    if bare.startswith("<") and bare[1:-1].isdigit() and int(bare[1:-1]) < len(names):
        return piece[: len(piece) - len(bare)] + names[int(bare[1:-1])]
    return piece


def pieces(text: str) -> list[str]:
    """Words, places of names and marks, each with the space before it."""
    return _PIECE.findall(text)


def _kind(piece: str) -> str:
    bare = piece.strip()
    return "#" if bare.isdigit() else bare


def edit_between(before: str, after: str) -> Edit | None:
    """The edit that turns one text into another; empty for equal texts, None where too much or no name changes."""
    old, new = _PIECE.findall(before), _PIECE.findall(after)
    if old == new:
        return _SAME
    first, end = _shared_ends(old, new)
    old_middle, new_middle = old[first : len(old) - end], new[first : len(new) - end]
    if max(len(old_middle), len(new_middle)) > _COMPARED:
        return None
    opcodes = difflib.SequenceMatcher(None, old_middle, new_middle, autojunk=False).get_opcodes()
    apart = ((first + i, first + j, first + k, first + m) for tag, i, j, k, m in opcodes if tag != "equal")
    places = [_leftmost(old, new, *place) for place in apart]
    changes = tuple(
        Change(_kind(old[i - 1]) if i else "", tuple(old[i:j]), tuple(new[k:m]), _kind(old[j]) if j < len(old) else "")
        for i, j, k, m in places
    )
    words = [word for change in changes for word in (*change.old, *change.new)]
    if len(changes) > _CHANGES or len(words) > _LONGEST or not any("<" in word for word in words):
        return None
    return changes


def _shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many pieces two texts have in common at their beginning, and at the end of the rest."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    return first, end


def _leftmost(old: Sequence[str], new: Sequence[str], i: int, j: int, k: int, m: int) -> tuple[int, int, int, int]:
    """old[i:j] becomes new[k:m], placed as far to the left as it may be.

    "a cup, " out of "a cup, a fork" is "cup, a" out of it as well: one edit, not two.
    """
    while (
        min(i, k) > 0
        and old[i - 1] == new[k - 1]
        and ((k == m and old[i - 1] == old[j - 1]) or (i == j and new[k - 1] == new[m - 1]))
    ):
        i, j, k, m = i - 1, j - 1, k - 1, m - 1
    return i, j, k, m


def applied(edit: Edit, pieces: Sequence[str]) -> list[str] | None:
    """The pieces after the edit; None where a place of it is not there."""
    out = list(pieces)
    for change in edit:
        size = len(change.old)
        for at in range(len(out) - size + 1):
            left = _kind(out[at - 1]) if at else ""
            right = _kind(out[at + size]) if at + size < len(out) else ""
            if tuple(out[at : at + size]) == change.old and left == change.left and right == change.right:
                out[at : at + size] = change.new
                break
        else:
            return None
    return out
