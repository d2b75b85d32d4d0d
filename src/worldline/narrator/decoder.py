"""From a latent to text: which of the log's candidates the world answers with, p(o | z_hat, h, a).

The paper decodes nothing; a policy that reads text needs it. A log-linear model over hashed features of a candidate
(how near its source is, whether its things agree with what this episode and this task have shown, what has become of
the goal's things) plus the distance of its latent from the sampled one. It is fitted by maximum likelihood on the
log itself, each episode answered by the others, and with sampled latents, so it knows how far to trust them.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from worldline.narrator.grammar import kind, listing
from worldline.narrator.history import History, shared
from worldline.narrator.linear import Hashed, padded_ids
from worldline.narrator.retrieval import KIND, OWN, SAME, SHAPE, VIEW, CandidateAnswer, TransitionIndex
from worldline.narrator.words import stable_hash

Array = npt.NDArray[np.float64]
FEATURES = 1 << 16
_NEAR = {near: row for row, near in enumerate((OWN, VIEW, "task", SAME, KIND, SHAPE, "refused"))}


@dataclass(frozen=True)
class Choice:
    """The candidates for one answer: hashed features (n, F), 0 for none; nearness (n,); latent of the source or -1."""

    candidates: list[CandidateAnswer]
    features: npt.NDArray[np.int64]
    near: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]

    def described(self, listed: str) -> npt.NDArray[np.int64]:
        """The features, with one more: whether the source was valid, and how likely the world offered the action."""
        validity = [_hashed(f"valid|{c.source is None or c.source.valid}|{listed}") for c in self.candidates]
        return np.column_stack([np.array(validity, dtype=np.int64), self.features])


def choice(index: TransitionIndex, history: History, action: str) -> Choice:
    """The candidates for the answer to `action`, described."""
    candidates = index.candidates(history, action)
    rows = _Describer(index, history, action).rows(candidates)
    return Choice(
        candidates,
        padded_ids(rows),
        np.array([_NEAR[candidate.near] for candidate in candidates], dtype=np.int64),
        np.array([-1 if c.source is None else c.source.index for c in candidates], dtype=np.int64),
    )


@functools.lru_cache(1 << 18)
def _hashed(feature: str) -> int:
    return 1 + stable_hash(feature) % (FEATURES - 1)


@functools.lru_cache(1 << 16)
def _likeness(left: str, right: str) -> str:
    """How many words two texts share, to one decimal place."""
    return f"{shared(set(left.split()), set(right.split())):.1f}"


@functools.lru_cache(1 << 14)
def _source_ids(shape: str, near: str, same: str, aligned: bool, alike: str, goals: str) -> tuple[int, ...]:
    features = [near, f"{shape}|{near}", f"{near}|{same}|{aligned}"]
    if alike:
        features += [f"{shape}|alike|{alike}", f"goals|{goals}", f"{near}|{same}|goals|{goals}"]
    return tuple(_hashed(feature) for feature in features)


class _Describer:
    """Features of the candidates for one answer."""

    def __init__(self, index: TransitionIndex, history: History, action: str) -> None:
        self.grammar, self.history, self.action = index.grammar, history, action
        self.command = index.grammar.parse(action)
        self.states = history.states(self.command)
        self.places = index.known_places(history)
        last = history.answers(action)
        self.last = set(index.grammar.things(last[0])) - set(self.command.things) if last else set()
        self.here = {thing for thing, actions in self.places.items() if action in actions}
        self.goals = [(role, name, self._whereabouts(name)) for role, name in self._roles()]
        self.goal_outline = index.grammar.outline(history.goal)
        self.left = _bucket(sum(thing not in history.status for thing in history.first_things))
        self._features_of: dict[str, list[str]] = {}
        self._memo: dict[tuple[str, str], list[int]] = {}

    def rows(self, candidates: Sequence[CandidateAnswer]) -> list[list[int]]:
        return [[*self._source(c), *self._text(c.text, c.near)] for c in candidates]

    def _roles(self) -> list[tuple[str, str]]:
        return sorted(self.grammar.goal_roles(self.history.goal).items())

    def _whereabouts(self, name: str) -> str:
        """How many things of a kind that the goal names were seen, and whether the log has more of them here."""
        seen = {thing for thing in self.history.where if kind(thing) == name}
        others = [a for thing, a in self.places.items() if kind(thing) == name and thing not in seen]
        more = "unknown" if not others else "here" if any(self.action in a for a in others) else "elsewhere"
        return f"{min(len(seen), 2)}{more}"

    def _source(self, c: CandidateAnswer) -> tuple[int, ...]:
        """How near the source is and whether it was in the same state."""
        near, source = c.near, c.source
        same = "self" if source is None else str(source.states == self.states)
        alike = goals = ""
        if source is not None and near in (SAME, KIND, SHAPE):
            alike = _likeness(" ".join(source.command.things), " ".join(self.command.things))
            goals = _likeness(source.goal, self.history.goal)
        return _source_ids(self.command.template, near, same, c.aligned, alike, goals)

    def _text(self, text: str, near: str) -> list[int]:
        """What the text says, and whether that agrees with what has been seen."""
        ids = self._memo.get((text, near))
        if ids is None:
            features = self._features_of.get(text)
            if features is None:
                things = [thing for thing in self.grammar.things(text) if thing not in self.command.things]
                features = self._features_of[text] = [
                    *self._wording(text),
                    *self._agreement(things),
                    *self._goal(things),
                ]
            described = [*features, *[f"{near}|{feature}" for feature in features[2:6]]]
            ids = self._memo[text, near] = [_hashed(feature) for feature in described]
        return ids

    def _wording(self, text: str) -> list[str]:
        outline, shape = self.grammar.outline(text), self.command.template
        shown = listing(text, self.grammar)
        size = "-" if shown is None else str(min(len(shown.things), 4))
        kinds = ",".join(self.command.kinds)
        return [f"{shape}|{self.states[-1]}|{outline}", f"{shape}|{kinds}|{size}"]

    def _agreement(self, things: Sequence[str]) -> list[str]:
        """Counts of things that were seen elsewhere, logged elsewhere, new, or missing; and what befell each."""
        moved = elsewhere = new = 0
        features = []
        for thing in things:
            status = self.history.fate(thing, self.command.things)
            if status is not None:
                features.append(f"there|{status}")
            elif thing in self.history.where:
                moved += self.action not in self.history.where[thing] and thing not in self.last
            elif thing in self.places:
                elsewhere += thing not in self.here
            else:
                new += 1
        present = set(things)
        missing = [thing for thing in self.last - present if thing not in self.history.status]
        unseen = [thing for thing in self.here - present if thing not in self.history.status]
        fates = (self.history.fate(thing, self.command.things) for thing in sorted(self.last - present))
        features += [f"gone|{fate}" for fate in fates if fate is not None]
        counts = (("moved", moved), ("elsewhere", elsewhere), ("missing", len(missing)), ("unseen", len(unseen)))
        return [*(f"{name}|{min(count, 3)}" for name, count in counts), f"new|{min(new, 4)}", *features]

    def _goal(self, things: Sequence[str]) -> list[str]:
        """Whether a thing of a kind the goal names turns up that had not been seen before."""
        features = []
        fresh = {kind(thing) for thing in things if thing not in self.history.where}
        kinds = ",".join(self.command.kinds)
        for role, name, whereabouts in self.goals:
            event = f"{role}|{name in fresh}|{whereabouts}"
            features += [f"goal|{event}", f"goal|{event}|{self.command.template}", f"goal|{event}|{kinds}"]
            features += [
                f"goal|{event}|{kinds}|{name}",
                f"goal|{event}|left {self.left}",
                f"goal|{event}|{self.goal_outline}",
            ]
        return features


def _bucket(count: int) -> int:
    """0, 1, 2, 3, then by powers of two."""
    return count if count < 4 else 2 + (count - 1).bit_length()


class Decoder(Hashed):
    """Scores candidates. Untrained, it prefers the nearest source."""

    def __init__(self) -> None:
        super().__init__(FEATURES)
        self.prior = nn.Parameter(torch.linspace(2.0, -2.0, len(_NEAR)))
        self.distance = nn.Parameter(torch.zeros(len(_NEAR)))

    def forward(self, features: Tensor, near: Tensor, distance: Tensor) -> Tensor:
        """features (n, F), near (n,), squared distance per latent dimension (n,) -> scores (n,)."""
        return self.score(features) + self.prior[near] - nn.functional.softplus(self.distance[near] - 2) * distance


def targets(candidates: Sequence[CandidateAnswer], answer: str, index: TransitionIndex, goal: str) -> Array:
    """Which candidates are the answer; where none is, which come nearest to it, weighed to one in all."""
    exact = np.array([candidate.text == answer for candidate in candidates], dtype=np.float64)
    if exact.any() or not len(exact):
        return exact
    grammar = index.grammar
    wanted, outline = grammar.things(answer), grammar.outline(answer)
    named = set(grammar.goal_roles(goal).values())
    present = named & {kind(thing) for thing in wanted}
    near = np.array(
        [
            shared(set(grammar.things(c.text)), set(wanted))
            + 2 * (grammar.outline(c.text).split()[:6] == outline.split()[:6])
            + 2 * (named & {kind(thing) for thing in grammar.things(c.text)} == present)
            for c in candidates
        ]
    )
    best: Array = (near >= near.max() - 1e-9).astype(np.float64)
    return best
