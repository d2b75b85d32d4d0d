"""The admissible list of a free-text environment: searches and answers that the passages so far suggest.

The list is a function of the question and of the passages so far, so that random, scoring and epsilon-mixed policies
are well defined; free text outside of it is accepted by the environment all the same.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from worldline.envs.searchqa.match import normalise
from worldline.envs.searchqa.passage import Findings, Passage

MAX_SEARCHES = 8
MAX_NAMES = 12
MAX_SENTENCES = 4

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_NAME = r"[A-ZÀ-Þ][\w'’-]*"
_MENTION = re.compile(
    rf"\d{{1,2}} (?:{_MONTHS}) \d{{4}}"
    r"|\d[\d,]*(?:\.\d+)?(?!\w)"
    rf"|{_NAME}(?: (?:(?:of|the|de|von|van|upon) ){{0,2}}{_NAME})*"
)
_FUNCTION_WORDS = """the a an he she it its his her they their this that these those in on at by of from for to as and
    but or after before since until who what when where which whose whom how why is was were are did does do has had
    name born with"""
_VERBS = frozenset(("is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could"))
_NOT_A_NAME = frozenset(_FUNCTION_WORDS.split())


def search_action(query: str) -> str:
    return f"<search>{query}</search>"


def answer_action(answer: str) -> str:
    return f"<answer>{answer}</answer>"


def admissible(question: str, findings: Sequence[Findings]) -> list[str]:
    """Searches for what is named, answers by a name or number, and answers that quote a whole sentence."""
    passages = _by_interest(findings)
    named = mentions(question)
    mentioned = [mention for passage in passages for mention in (passage.title, *mentions(passage.text))]
    verdicts = ("yes", "no") if _asks_whether(question) else ()
    queries = _distinct((question, *named, *(name for name in mentioned if not name[0].isdigit())), MAX_SEARCHES)
    names = _distinct((*verdicts, *mentioned, *named), MAX_NAMES)
    quotes = _distinct((quote for passage in passages[:1] for quote in _sentences(passage.text)), MAX_SENTENCES)
    return [*map(search_action, queries), *map(answer_action, [*names, *quotes])]


def _by_interest(findings: Sequence[Findings]) -> list[Passage]:
    """The last findings first, and before all others the passages that were searched for by their title."""
    queried = {normalise(result.query) for result in findings}
    latest = [passage for result in reversed(findings) for passage in result.passages]
    return sorted(latest, key=lambda passage: normalise(passage.title) not in queried)


def mentions(text: str) -> list[str]:
    """The names, dates and numbers of a text, in order of appearance."""
    return [mention for match in _MENTION.finditer(text) if (mention := _trimmed(match[0]))]


def _trimmed(mention: str) -> str:
    """Without the function words that stand capitalised at the start of a sentence, except a title's own 'The'."""
    words = mention.rstrip("'’-,.").removesuffix("'s").removesuffix("’s").split(" ")
    while words and words[0].lower() in _NOT_A_NAME and not (words[0] == "The" and len(words) > 1):
        words = words[1:]
    return " ".join(words)


def _asks_whether(question: str) -> bool:
    return question.split(" ", 1)[0].lower() in _VERBS


def _sentences(text: str) -> list[str]:
    return [sentence.removesuffix(".") for sentence in re.split(r"(?<=[.!?]) ", text)]


def _distinct(texts: Iterable[str], limit: int) -> Iterator[str]:
    keys: set[str] = set()
    for text in texts:
        key = normalise(text)
        if key and key not in keys:
            keys.add(key)
            yield text
            if len(keys) == limit:
                return
