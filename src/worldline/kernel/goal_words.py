"""Words that a goal gives to the world's answers: "Mia" in "Mia: Now I see.", where the goal is to help Mia.

They are names, as those of actions are: what is answered in another task is told with the words of ours in their place,
and answers are of one sort whichever words a task gives them. Which words these are is counted in the log: the world
repeats them where the goal has them, and seldom elsewhere.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from worldline.kernel.words import plain_words
from worldline.types import Trajectory

SHARE, ELSEWHERE = 0.2, 1 / 3
"""The share of the episodes with a word in their goal whose answers must have it; of all others at most so many times
that share may have it."""
_FREQUENT = 8
"""Episodes whose goal has a word that tell its share. Of a rarer word the words in its place of a goal do, those of
other tasks among them: else an episode's own answers would decide."""
MOST = 16
"""Words that a goal gives at most."""
_REMEMBERED = 1 << 13
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class GoalWords:
    """The words that the goals of a log give to the answers, in lower case."""

    words: frozenset[str] = frozenset()
    _given: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _of_others: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, episodes: Sequence[Trajectory], no_names: frozenset[str] = frozenset()) -> "GoalWords":
        """`no_names` are never among them."""
        with_word: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        repeated: Counter[str] = Counter()
        with_place: Counter[str] = Counter()
        repeated_in: Counter[str] = Counter()
        places: dict[str, set[str]] = defaultdict(set)
        for episode in episodes:
            answers = frozenset().union(*map(plain_words, set(episode.next_observations)))
            words = [word for word in _WORD.findall(episode.goal.lower()) if not word[0].isdigit()]
            answered.update(answers)
            with_word.update(set(words))
            repeated.update(answers.intersection(words))
            in_places = set(zip(["", *words], words, strict=False))
            with_place.update({place for place, _ in in_places})
            repeated_in.update({place for place, word in in_places if word in answers})
            for place, word in in_places:
                places[word].add(place)

        def share(word: str) -> float:
            if with_word[word] >= _FREQUENT:
                return repeated[word] / with_word[word]
            return max(repeated_in[place] / with_place[place] for place in places[word])

        def elsewhere(word: str) -> float:
            return (answered[word] - repeated[word]) / (len(episodes) - with_word[word])

        varying = (word for word, times in with_word.items() if times < len(episodes) and word not in no_names)
        return cls(frozenset(w for w in varying if share(w) >= SHARE and elsewhere(w) <= ELSEWHERE * share(w)))

    def given(self, goal: str) -> tuple[str, ...]:
        """The first words that a goal gives, in its order, as it spells them first."""
        words = self._given.get(goal)
        if words is None:
            spelled: dict[str, str] = {}
            for word in _WORD.findall(goal):
                if word.lower() in self.words:
                    spelled.setdefault(word.lower(), word)
            if len(self._given) >= _REMEMBERED:
                self._given.clear()
            words = self._given[goal] = tuple(spelled.values())[:MOST]
        return words

    def of_others(self, goal: str) -> frozenset[str]:
        """The words that only other goals give."""
        words = self._of_others.get(goal)
        if words is None:
            if len(self._of_others) >= _REMEMBERED:
                self._of_others.clear()
            words = self._of_others[goal] = self.words.difference(_WORD.findall(goal.lower()))
        return words

    def in_order(self, old: str, new: str) -> tuple[tuple[str, str], ...]:
        """The words that one goal gives to those that another gives, in their order; none unless both give as many."""
        theirs, ours = self.given(old), self.given(new)
        return tuple((a, b) for a, b in zip(theirs, ours, strict=True) if a != b) if len(theirs) == len(ours) else ()
