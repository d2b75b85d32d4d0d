"""What a task answers about a thing, in whichever words: what comes again is told from how it is said.

"You see Ida: a brown coat, grey hair" and "Ida has grey hair, and wears a coat of brown wool" agree in what they say.
A word says something where it comes again in other episodes of the task, when the same names are asked about, more
often than in other tasks. Counted in the log; no word is built in.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import StepTable
from worldline.kernel.words import vocabulary

Asked = tuple[str, tuple[str, ...]]
"""A task and the names of an action, in order of the alphabet."""
_LEAST = 1.3
"""A word that comes again so many times as often as in other tasks says something."""
_PRIOR = 4.0
"""Pairs of answers in which a word comes again as often as in other tasks, added to those that are counted."""
_EPISODES = ""
"""Where episodes are counted among the words."""


class _Pairs:
    """Pairs of episodes that answer about the same names, the first of them with a word."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.again: Counter[str] = Counter()

    def add(self, counts: Counter[str], others: Counter[str]) -> None:
        """Each episode that is counted, with each of the others."""
        for word, times in counts.items():
            self.of[word] += times * others[_EPISODES]
            self.again[word] += times * others[word]

    def chance(self, word: str, prior: float) -> float:
        """That the second answers with the word, too."""
        return (self.again[word] + _PRIOR * prior) / (self.of[word] + _PRIOR)


class TaskAnswers:
    """The words that say something, and how often each task has answered with them about each thing."""

    def __init__(self, log: StepTable) -> None:
        self._words: dict[Asked, dict[int, frozenset[str]]] = defaultdict(dict)
        """Of what is asked about, the words that each episode has answered with."""
        for row, phrase in zip(log.rows, log.phrases, strict=True):
            if phrase.lowered:
                said = self._words[_asked(log.episodes[row.episode].task_id, phrase)]
                words = vocabulary(row.answer) - vocabulary(row.action)
                said[row.episode] = said.get(row.episode, frozenset()) | words
        self.weights = self._weighed()

    def _weighed(self) -> dict[str, float]:
        """How much more often a word comes again about the same names in a task than in other tasks: log-ratios."""
        tasks_of: dict[tuple[str, ...], list[Counter[str]]] = defaultdict(list)
        for (_, names), said in self._words.items():
            tasks_of[names].append(Counter({_EPISODES: len(said)}) + Counter(itertools.chain(*said.values())))
        here, elsewhere = _Pairs(), _Pairs()
        for tasks in tasks_of.values():
            everywhere = sum(tasks, Counter[str]())
            for counts in tasks:
                here.add(counts, counts - Counter(dict.fromkeys(counts, 1)))
                elsewhere.add(counts, everywhere - counts)
        weights = {}
        for word in here.of:
            usual = elsewhere.chance(word, 0.5)
            ratio = here.chance(word, usual) / usual
            if word != _EPISODES and ratio > _LEAST:
                weights[word] = math.log(ratio)
        return weights

    def votes(self, task: str, phrase: Phrase, but: int) -> Mapping[str, float]:
        """The share of this task's episodes, `but` left out, that answer about these names with each such word."""
        said = self._words.get(_asked(task, phrase), {}) if phrase.lowered else {}
        others = [words for episode, words in said.items() if episode != but]
        counts = Counter(word for words in others for word in words if word in self.weights)
        return {word: times / len(others) for word, times in counts.items()}

    def agreement(self, text: str, votes: Mapping[str, float]) -> float:
        """How far a text says what these votes say, 0 to 1."""
        words = vocabulary(text)
        own = math.fsum(self.weights[word] for word in words if word in self.weights)
        voted = math.fsum(self.weights[word] * share for word, share in votes.items())
        both = math.fsum(self.weights[word] * share for word, share in votes.items() if word in words)
        return both / (own + voted - both) if both else 0.0


def _asked(task: str, phrase: Phrase) -> Asked:
    return task, tuple(sorted(phrase.lowered))
