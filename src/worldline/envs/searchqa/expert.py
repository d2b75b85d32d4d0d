"""A competent agent for the generated encyclopedia: it knows the language, not the facts.

It parses the question into a thing and one or two relations, searches for the thing, reads the fact from the passage
of that title, continues from that fact, and answers. It keeps no state: everything it uses is in the turn.
"""

import functools
import re
from dataclasses import dataclass

from worldline.envs.searchqa import passage, wording
from worldline.envs.searchqa.candidates import answer_action, mentions, search_action
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.wording import Relation
from worldline.types import Turn


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks: follow `relations` one after the other, starting from `thing`."""

    thing: str
    relations: tuple[Relation, ...]


def act(turn: Turn) -> str:
    """The next search, or the answer once the last fact is read; a guess when no search helps."""
    observations = [*(exchange.observation for exchange in turn.history), turn.observation]
    passages = [source for observation in reversed(observations) for source in passage.read(observation)]
    request = parse(turn.goal)
    thing = request.thing if request else turn.goal
    for relation in request.relations if request else ():
        facts = (fact_in(source, relation) for source in passages if source.title == thing)
        fact = next((fact for fact in facts if fact), None)
        if fact is None:
            break
        thing = fact
    else:
        if request:
            return answer_action(thing)
    tried = {exchange.action for exchange in turn.history}
    searches = (search_action(query) for query in (thing, turn.goal))
    return next((search for search in searches if search not in tried), answer_action(_guess(passages)))


def parse(question: str) -> Request | None:
    """The request behind a question of the encyclopedia; None where it is worded otherwise."""
    for last in wording.RELATIONS:
        for form in last.questions:
            inside = _slot(form).fullmatch(question)
            if not inside:
                continue
            if thing := _named(inside["s"], last.subject):
                return Request(thing, (last,))
            for first in wording.RELATIONS:
                for phrase in first.phrases if first.object == last.subject else ():
                    deeper = _slot(phrase).fullmatch(inside["s"])
                    if deeper and (thing := _named(deeper["s"], first.subject)):
                        return Request(thing, (first, last))
    return None


def fact_in(source: Passage, relation: Relation) -> str | None:
    """The object of `relation` that a passage states about its subject."""
    for sentence in re.split(r"(?<=\.) ", source.text):
        for pattern in _readings(relation):
            if match := pattern.fullmatch(sentence):
                return match["o"]
    return None


def _named(text: str, kind: str) -> str | None:
    """The name in the way a question refers to a thing of this kind; None for a phrase."""
    match = re.fullmatch(wording.REFERENCE.get(kind, "{}").format("(.+)"), text)
    return match[1] if match and match[1][0].isupper() else None


@functools.cache
def _slot(form: str) -> re.Pattern[str]:
    return re.compile(re.escape(form).replace(r"\{s\}", "(?P<s>.+)"))


@functools.cache
def _readings(relation: Relation) -> tuple[re.Pattern[str], ...]:
    leads = [form for form in wording.LEADS[relation.subject] if f"{{{relation.name}}}" in form]
    forms = [*(form.replace(f"{{{relation.name}}}", "{o}") for form in leads), *relation.sentences]
    escaped = (re.escape(form).replace(r"\{o\}", "(?P<o>.+?)") for form in forms)
    return tuple(re.compile(re.sub(r"\\\{\w+\\\}", ".+?", form)) for form in escaped)


def _guess(passages: list[Passage]) -> str:
    names = [name for first in passages[:1] for name in mentions(first.text)]
    return next((name for name in names if name != passages[0].title), "unknown")
