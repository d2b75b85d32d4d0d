"""How an action that may be listed is described: where it comes from, and how its names relate to what was done.

The buckets of a description are what the list model has weights for.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from worldline.kernel.edits import openings
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.fillings import SLOTS
from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import StepTable
from worldline.kernel.words import stable_hash

BUCKETS = 1 << 18
_SHAPES, _SPOKEN, _COULD = 12, 3, 3
_WORD = re.compile(r"\w+")
Ids = npt.NDArray[np.int32]
Listing = tuple[float, frozenset[str], frozenset[str]]
"""The weight of a source, its list after the step and before it, with its names exchanged for ours."""
_Origin = tuple[bool, bool, bool, bool, int]
"""Whether an item is in the best source's list after the step, in ours before it, in the first, in the source's before
it; and in which share of the sources, in thirds."""
_Relation = tuple[str, str, bool, tuple[str, ...]]
"""Where a name stands: its place in the action, s: in the answer, o: in the observation before it, w: in an earlier
text with a name of the action, e: in another, -: nowhere; how it was last used; if the goal has a word of it; what
could be done with it."""


class ItemDescriber:
    """Buckets that describe one item."""

    def __init__(
        self,
        state: EpisodeState,
        step: StepDescription,
        answer: str,
        sources: Sequence[Listing],
        before: frozenset[str],
        first: frozenset[str],
        log: StepTable,
        deeds: tuple[str, ...],
        levels: tuple[str, ...],
    ) -> None:
        self._deeds, self._levels = deeds, levels
        self._orders: dict[str, tuple[str, ...]] = {}
        self._situation, self._top, self._before, self._first = state, sources[0], before, first
        total = sum(weight for weight, _, _ in sources) + 1e-9
        weights: dict[str, float] = defaultdict(float)
        for weight, after, _ in sources:
            for action in after:
                weights[action] += weight
        self._shares = {action: int(3 * weight / total) for action, weight in weights.items()}
        self._own = {name: str(slot) for slot, name in enumerate(step.phrase.lowered)}
        texts = [_spaced(text) for text in (state.first_observation, *state.answers)]
        names = [_spaced(name) for name in step.phrase.lowered]
        together = [text for text in texts if any(name in text for name in names)]
        self._shown = (("s", _spaced(answer)), ("o", texts[-1]), ("w", "".join(together)), ("e", "".join(texts)))
        self._action, self._verb = step.action, step.phrase.verb
        spoken = openings(step.phrase.blanked(answer))[:_SPOKEN]
        self._spoken = "|".join(sentence for sentence, _ in spoken)
        shapes = sorted(log.language.shape_sets[log.language.shape(state.listed)], key=lambda one: (len(one), one))
        self._shapes = (*shapes[:_SHAPES], *[""] * (_SHAPES - len(shapes[:_SHAPES])))
        self._could: dict[str, set[str]] = defaultdict(set)
        for item in before:
            other = log.language.phrasing.parse(item)
            for slot, name in enumerate(other.lowered):
                self._could[name].add(f"{other.skeleton}{slot}")
        self._named: dict[str, _Relation] = {}

    def _relation(self, name: str) -> _Relation:
        """The relation of a name, in lower case."""
        relation = self._named.get(name)
        if relation is None:
            use = self._situation.last_use.get(name)
            spaced = _spaced(name)
            where = next((place for place, text in self._shown if spaced in text), "-")
            in_goal = not self._situation.goal_words.isdisjoint(spaced.split())
            place = self._own.get(name, where)
            used = "-" if use is None else f"{use[0]}{min(self._situation.step - use[1], 3)}"
            could = sorted(self._could.get(name, ()))[:_COULD]
            relation = self._named[name] = place, used, in_goal, (*could, *["-"] * (_COULD - len(could)))
        return relation

    def _order(self, skeleton: str) -> tuple[str, ...]:
        """Of each frequent deed, whether it was last done after one with this skeleton, before, or never."""
        order = self._orders.get(skeleton)
        if order is None:
            done = self._situation.last_done
            own = done.get(skeleton, -1)
            order = self._orders[skeleton] = tuple(
                f"{deed}{'-' if (at := done.get(deed, -1)) < 0 else 'a' if at > own else 'b'}" for deed in self._deeds
            )
        return order

    def __call__(self, action: str, phrase: Phrase, elsewhere: int) -> tuple[Ids, ...]:
        """The buckets of an item, in parts: the parts of many items are the same."""
        _, after, there_before = self._top
        origin = (
            action in after,
            action in self._before,
            action in self._first,
            action in there_before,
            self._shares.get(action, 0),
        )
        since = self._situation.last_listed.get(action)
        relations = tuple([self._relation(name) for name in phrase.lowered])
        ago = "n" if since is None else str(min(self._situation.step - since, 4))
        itself = action == self._action
        own, placed, used = _buckets(
            self._verb, self._spoken, phrase.skeleton, relations, origin, ago, itself, elsewhere
        )
        order = self._order(phrase.skeleton)
        return (
            own,
            _endings(placed, "~", order),
            _endings(placed, "^", self._shapes),
            _endings(used, "^", self._shapes),
            _endings(phrase.skeleton, "#", self._levels),
        )


@functools.lru_cache(maxsize=1 << 15)
def _buckets(
    verb: str,
    spoken: str,
    skeleton: str,
    relations: tuple[_Relation, ...],
    origin: _Origin,
    ago: str,
    itself: bool,
    elsewhere: int,
) -> tuple[Ids, str, str]:
    """What describes an item whatever else is listed and was done (F,): many items of many steps are alike.

    The texts are what was done, what may be listed after it and where the names of that stand; and what may be listed
    and how its names were last used.
    """
    place = ",".join([where for where, _, _, _ in relations])
    used = ",".join([where + use for where, use, _, _ in relations])
    use_verbs = [use.rstrip("0123456789") for _, use, _, _ in relations]
    in_goal = "".join(str(int(one)) for _, _, one, _ in relations)
    verbs = ",".join(use_verbs)
    follows, was, move = origin[0], origin[1], f"{verb}>{skeleton}"
    places = "".join(str(int(one)) for one in origin)
    texts = [
        "b",
        places,
        f"{places}{move}",
        f"{move}{place}",
        f"{move}{place}{was:d}",
        f"{move}{used}",
        f"{move}{used}{was:d}{follows:d}",
        f"{move}{verbs}|{place}{was:d}",
        f"{move}{follows:d}{was:d}{place}",
        f"{places}{itself:d}{place}",
        f"{skeleton}{verbs}",
        f"{skeleton}{used}{was:d}",
        f"{move}{verbs}{follows:d}",
        f"{move}{place}{ago}{follows:d}",
        f"{move}{ago}{verbs}",
        f"{move}{ago}{place}{verbs}",
        f"{move}{place}>{spoken}",
        f"{move}{verbs}|{place}>{spoken}",
        f"{move}{verbs}|{place}{was:d}>{spoken}",
        f"{places}{move}{verbs}|{place}",
        f"{skeleton}{was:d}={elsewhere}",
        f"{places}{move}={elsewhere}",
        f"{move}{place}{was:d}={elsewhere}",
        f"{move}{verbs}|{place}{was:d}={elsewhere}",
        f"{move}{verbs}|{place}={elsewhere}>{spoken}",
        f"{skeleton}{was:d}&{in_goal}",
        f"{move}{place}{was:d}&{in_goal}",
        f"{move}{verbs}|{place}&{in_goal}>{spoken}",
        f"{skeleton}{was:d}={elsewhere}&{in_goal}",
        f"{move}{place}{was:d}={elsewhere}&{in_goal}",
        f"{move}{verbs}|{place}={elsewhere}&{in_goal}",
    ]
    for slot in range(SLOTS):
        verb_of = use_verbs[slot] if slot < len(use_verbs) else ""
        texts += [f"{slot}{verb_of}{move}{place}{was:d}", f"{slot}{verb_of}{move}{place}>{spoken}"]
        could = relations[slot][3] if slot < len(relations) else ("",) * _COULD
        texts += [f"{slot}{one}@{move}{place}" for one in could]
        texts += [f"{slot}{could}@{move}{place}>{spoken}"]
    return np.array([_bucket(text) for text in texts], np.int32), f"{move}{place}", f"{skeleton}{verbs}"


@functools.lru_cache(maxsize=1 << 15)
def _endings(text: str, mark: str, endings: tuple[str, ...]) -> Ids:
    """The buckets of a text with each of these endings (n,)."""
    return np.array([_bucket(f"{text}{mark}{one}") for one in endings], np.int32)


@functools.lru_cache(maxsize=1 << 14)
def _spaced(text: str) -> str:
    """The words of a text in lower case, each between spaces."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


@functools.lru_cache(maxsize=1 << 17)
def _bucket(text: str) -> int:
    return 1 + stable_hash(text) % (BUCKETS - 1)
