"""The text grammar of a game: command templates and what the world answers, in the official games' own language.

A text is literal words mixed with `{o.name}` (a bound entity), `#rule#` (the first of the rule's alternatives whose
condition holds), `{expression | query}` (the expression for each match of the query) and `[{...}]` (the same as an
English list). A query is a conjunction of facts, `inreceptacle(o:object, r:receptacle) & opened(r:receptacle)`,
matched left to right, facts in sorted order, distinct variables standing for distinct entities.
Left out: weights of alternatives and arbitrary Python in expressions, neither of which the official grammar uses.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from worldline.types import InputError


class Entity(NamedTuple):
    """The agent, a location, a receptacle or an object of a game."""

    kind: str
    number: int
    name: str


Bindings = Mapping[str, Entity]


class FactLookup(Protocol):
    """The facts that hold now, by predicate and pattern."""

    def __call__(self, predicate: str, pattern: tuple[Entity | None, ...]) -> Iterable[tuple[Entity, ...]]:
        """The facts of `predicate` that agree with `pattern` (None: anything), in sorted order."""


class _Condition(NamedTuple):
    predicate: str
    variables: tuple[str, ...]


class _Expand(NamedTuple):
    """`#rule#`"""

    rule: str


class _Each(NamedTuple):
    """`{expression | query}`, `enumerated` when in brackets."""

    expression: tuple[object, ...]
    query: tuple[_Condition, ...]
    enumerated: bool


class _Attribute(NamedTuple):
    """`o.name`"""

    variable: str
    attribute: str


_PART = re.compile(r"(?P<open>\[?)\{(?P<expression>[^|{}]+)(?:\|(?P<query>[^{}]+))?\}\]?|#(?P<rule>[^#]+)#|[^\[\]{}#]+")
_ATOM = re.compile(r"(\w+)\(([^)]*)\)")
_PLACEHOLDER = re.compile(r"\[?\{\s*(\w+)[^{}]*\}\]?")
_ARTICLES = {"indefinite": "a", "definite": "the"}
_WORD_LISTS = {"list_empty": "nothing", "list_separator": ", ", "list_last_separator": ", and "}


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[object, ...]:
    text = text.lstrip()  # the official parser passes over it too: `help` does not begin with a blank line
    parts: list[object] = []
    end = 0
    for match in _PART.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        if match["rule"]:
            parts.append(_Expand(match["rule"]))
        elif match["expression"]:
            parts.append(
                _Each(_expression(match["expression"]), parse_query(match["query"] or ""), bool(match["open"]))
            )
        else:
            parts.append(match[0])
    if end != len(text):
        raise InputError(f"grammar: cannot read the text {text!r} from {text[end:]!r} on")
    return tuple(parts)


def _expression(text: str) -> tuple[object, ...]:
    text = text.strip()
    if text.startswith("#"):
        return (_Expand(text.strip("#")),)
    terms: list[object] = []
    for term in text.split(" or ")[0].split("+"):
        quoted = re.fullmatch(r"\s*(?:'(.*)'|\"(.*)\")\s*", term)
        named = re.fullmatch(r"\s*(\w+)(?:\.(\w+))?\s*", term)
        if quoted:
            terms.append(quoted[1] or quoted[2] or "")
        elif named:
            terms.append(_Attribute(named[1], named[2] or "name"))
        else:
            raise InputError(f"grammar: cannot read the expression {text!r}")
    return tuple(terms)


@lru_cache(maxsize=4096)
def parse_query(text: str) -> tuple[_Condition, ...]:
    """The facts that a query asks for; types are dropped, the predicate says them."""
    atoms = _ATOM.findall(text)
    return tuple(_Condition(name, tuple(v.split(":")[0].strip() for v in args.split(","))) for name, args in atoms)


Alternatives = tuple[tuple[str, str], ...]
"""(condition or "", text) pairs; the first that holds is taken."""


@dataclass(frozen=True)
class TextGrammar:
    """The text rules of a game, by the official action names in lower case."""

    commands: Mapping[str, str]
    """Action name -> command as a format string: `take {o} from {r}`."""
    feedback: Mapping[str, str]
    rules: Mapping[str, Alternatives]

    @classmethod
    def read(cls, text: str) -> "TextGrammar":
        """The grammar in a `.twl2` text."""
        commands: dict[str, str] = {}
        feedback: dict[str, str] = {}
        rules: dict[str, Alternatives] = {}
        action = ""
        for match in _BLOCK.finditer(text):
            if match["action"]:
                action = match["action"].lower()
            elif match["template"] is not None:
                commands[action] = _PLACEHOLDER.sub(r"{\1}", match["template"])
            elif match["feedback"] is not None:
                feedback[action] = match["feedback"]
            else:
                rules.update(_read_rules(match["rules"]))
        if not commands or "intro" not in rules:
            raise InputError("grammar: no action templates or no 'intro' rule: not an ALFWorld text grammar")
        if silent := commands.keys() - feedback.keys():
            raise InputError(f"grammar: no feedback for {', '.join(sorted(silent))}")
        return cls(commands, feedback, rules)

    def with_task(self, sentence: str) -> "TextGrammar":
        """The same words with another task sentence."""
        return replace(self, rules={**self.rules, "task": (("", sentence),)})

    @property
    def task(self) -> str:
        return self.rules["task"][0][1]

    def derive(self, text: str, bindings: Bindings, facts: FactLookup) -> str:
        """`text` with its variables replaced by `bindings` and its rules expanded under `facts`."""
        return "".join(self._spell(part, bindings, facts) for part in _parse(text))

    def _spell(self, part: object, bindings: Bindings, facts: FactLookup) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, _Attribute):
            return _ARTICLES.get(part.attribute) or bindings[part.variable].name
        if isinstance(part, _Expand):
            return self._expand(part.rule, bindings, facts)
        assert isinstance(part, _Each)
        items = [
            "".join(self._spell(term, bound, facts) for term in part.expression)
            for bound in matches(part.query, bindings, facts)
        ]
        return self._enumerate(items) if part.enumerated else "".join(items)

    def _expand(self, rule: str, bindings: Bindings, facts: FactLookup) -> str:
        for condition, text in self.rules.get(rule, ()):
            if not condition or any(True for _ in matches(parse_query(condition), bindings, facts)):
                return self.derive(text, bindings, facts)
        raise InputError(f"grammar: no alternative of '#{rule}#' applies")

    def _enumerate(self, items: list[str]) -> str:
        if not items:
            return self._word("list_empty")
        if len(items) == 1:
            return items[0]
        return self._word("list_separator").join(items[:-1]) + self._word("list_last_separator") + items[-1]

    def _word(self, rule: str) -> str:
        return self.rules[rule][0][1] if rule in self.rules else _WORD_LISTS[rule]


def matches(query: tuple[_Condition, ...], bindings: Bindings, facts: FactLookup) -> Iterator[Bindings]:
    """Every way to bind the free variables of `query` so that it holds."""
    if not query:
        yield bindings
        return
    predicate, variables = query[0]
    for fact in facts(predicate, tuple(bindings.get(variable) for variable in variables)):
        bound = dict(bindings)
        for variable, entity in zip(variables, fact, strict=True):
            if variable not in bindings and entity in bound.values():
                break
            bound[variable] = entity
        else:
            yield from matches(query[1:], bound, facts)


_BLOCK = re.compile(
    r'grammar\s*::\s*"""(?P<rules>.*?)"""\s*;'
    r"|action\s+(?P<action>[\w/-]+)\s*\{"
    r'|template\s*::\s*"(?P<template>[^"]*)"\s*;'
    r'|feedback\s*::\s*"(?P<feedback>[^"]*)"\s*;',
    re.DOTALL,
)


def _read_rules(block: str) -> dict[str, Alternatives]:
    text = "\n".join(line for line in block.splitlines() if not line.lstrip().startswith("#"))
    try:
        rules = json.loads(text)
        return {name: tuple((rule.get("condition", ""), rule["rhs"]) for rule in rules[name]) for name in rules}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"grammar: a rule block is not readable: {error}") from None
