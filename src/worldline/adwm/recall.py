"""What a place looked like last time, with what was done to it since: how an imagined world stays the same world.

An answer often repeats an earlier view of the same thing ("You arrive at fridge 1." + "The fridge 1 is open. In it,
you see a cup 1."), less what was taken out and with what was put in. Which actions put in and which take out is
counted from the log.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from worldline.adwm.chronicle import Chronicle
from worldline.adwm.grammar import Grammar
from worldline.adwm.listing import listing, relisted
from worldline.types import Trajectory

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_HEAD = 5
"""Words of a sentence's outline that tell whether two sentences say the same sort of thing."""


def spliced(frame: str, view: str, grammar: Grammar) -> str | None:
    """`frame` up to the sentence that `view` says of the same thing, and `view` from there on; None if it says none."""
    old = _SENTENCE.split(view.strip())
    heads = [_head(sentence, grammar) for sentence in old]
    new = _SENTENCE.split(frame.strip())
    for at, sentence in enumerate(new):
        head = _head(sentence, grammar)
        if head is not None and head in heads:
            return " ".join([*new[:at], *old[heads.index(head) :]])
    return None


def _head(sentence: str, grammar: Grammar) -> tuple[str, ...] | None:
    """What sort of sentence it is, and about what."""
    things = grammar.things(sentence)
    return (things[0], *grammar.outline(sentence).split()[:_HEAD]) if things else None


class Custom:
    """Whether a thing is in the next view of a place after an action named them both: counted, by slot."""

    def __init__(self, counts: dict[str, tuple[int, int]]) -> None:
        self.counts = counts

    @classmethod
    def of(cls, grammar: Grammar, episodes: Sequence[Trajectory]) -> "Custom":
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for episode in episodes:
            seen = Chronicle(grammar, episode.task_id, episode.goal, episode.steps[0].observation)
            answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
            for step, answer in zip(episode.steps, answers, strict=True):
                found = listing(answer, grammar)
                things = grammar.parse(step.action).things
                if found is not None and len(things) == 1:
                    for thing, here in seen.handled(things[0]):
                        if here:
                            counts[seen.status[thing]][thing in found.things] += 1
                seen.advance(step.action, answer, step.valid)
        return cls({slot: (absent, present) for slot, (absent, present) in counts.items()})

    def changes(self, chronicle: Chronicle, place: str, since: int) -> tuple[list[str], list[str]]:
        """What left `place` and what came to it by the actions from step `since` on."""
        gone: list[str] = []
        there: list[str] = []
        for thing, here in chronicle.handled(place, since):
            absent, present = self.counts.get(chronicle.status[thing], (1, 0)) if here else (1, 0)
            (there if present > absent else gone).append(thing)
        return gone, there

    def contents(self, chronicle: Chronicle, place: str) -> frozenset[str]:
        """What is at `place` by its last view and by what was done since."""
        views = chronicle.views(place)
        if not views:
            return frozenset()
        shown = listing(chronicle.observations[views[0]], chronicle.grammar)
        gone, there = self.changes(chronicle, place, views[0])
        return frozenset(shown.things if shown else ()) - set(gone) | set(there)


def recalled(frames: Iterable[str], chronicle: Chronicle, place: str, custom: Custom) -> list[str]:
    """Answers that repeat this episode's last view of `place` inside each of `frames`, where one fits."""
    views = []
    for at in chronicle.views(place):
        gone, there = custom.changes(chronicle, place, at)
        views.append(relisted(chronicle.observations[at], chronicle.grammar, gone, there))
    found = []
    for frame in frames:
        fits = (spliced(frame, view, chronicle.grammar) for view in views)
        found.append(next((text for text in fits if text is not None), None))
    return list(dict.fromkeys(text for text in found if text is not None))
