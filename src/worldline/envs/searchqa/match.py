"""How an answer is judged: exact match and F1 over words, after SQuAD's normalisation."""

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case without punctuation, articles and double spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Does `answer` equal one of `golds`, normalised?"""
    given = normalise(answer)
    return any(given == normalise(gold) for gold in golds)


def f1(answer: str, golds: Iterable[str]) -> float:
    """The best harmonic mean of word precision and recall against any of `golds`."""
    return max((_f1(normalise(answer).split(), normalise(gold).split()) for gold in golds), default=0.0)


def _f1(given: list[str], gold: list[str]) -> float:
    shared = sum((Counter(given) & Counter(gold)).values())
    return 2 * shared / (len(given) + len(gold)) if shared else 0.0
