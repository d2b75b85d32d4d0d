"""Which actions are listed after a step: for every action that may be, the log-odds that it is.

Items come from the lists of the most likely sources (with names exchanged), from this episode's own lists, and from
skeletons filled with names in view. Each is described by where it comes from and by how its names relate to the action,
the answer and the episode; a linear model over hashed descriptions is fitted on the log's lists.
"""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from scipy.special import expit
from torch import Tensor, nn

from worldline.kernel.candidates import Candidates, history_renaming, latest_phrases
from worldline.kernel.edits import openings
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.phrases import Phrase, Phrasing, blanked, renamed_set
from worldline.kernel.step_table import StepTable
from worldline.kernel.words import stable_hash

BUCKETS = 1 << 18
SOURCES = 5
_STEPS = 200
_PRIOR = 3.0
"""The variance of a weight before the log is read."""
_SHAPES, _SLOTS, _FILLINGS, _IN_VIEW, _NAME_WORDS, _SPOKEN, _RECENT, _DEEDS, _COULD = 12, 2, 40, 12, 4, 3, 6, 8, 3
_WORD, _DIGITS = re.compile(r"\w+"), re.compile(r"\d+")
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ActionTemplate:
    """An action taken apart at its names: the texts between them, and which name each is."""

    texts: tuple[str, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, action: str, names: Sequence[str]) -> "ActionTemplate":
        taken_apart = re.split(r"<(\d+)>", blanked(action, names))
        return cls(tuple(taken_apart[::2]), tuple(map(int, taken_apart[1::2])))

    def filled(self, names: Sequence[str]) -> str:
        """The action with these names in the place of its own."""
        named = [names[slot] + text for slot, text in zip(self.slots, self.texts[1:], strict=True)]
        return self.texts[0] + "".join(named)


class Fillings:
    """Which names stand in which slot of which skeleton, their numbers left out, and what each episode listed."""

    def __init__(self, phrasing: Phrasing, log: StepTable) -> None:
        actions = {a for row in log.rows for a in row.listed or ()}
        self._listed = _listed_kinds(log)
        self._templates: dict[str, ActionTemplate] = {}
        self._kinds: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._all_kinds: set[str] = set()
        for action in sorted(actions):
            phrase = phrasing.parse(action)
            if phrase.skeleton not in self._templates:
                self._templates[phrase.skeleton] = ActionTemplate.of(action, phrase.names)
            for slot, name in enumerate(phrase.names):
                self._all_kinds.add(_kind(name))
                self._kinds[phrase.skeleton][slot].add(_kind(name))
        done = Counter(
            phrase.skeleton for row in log.rows if (phrase := phrasing.parse(row.action)).skeleton in self._kinds
        )
        self.deeds = tuple(skeleton for skeleton, _ in done.most_common(_DEEDS))
        """The skeletons of what was most often done."""
        self._longest = min(max((len(kind.split()) for kind in self._all_kinds), default=1), _NAME_WORDS)

    def listed_elsewhere(self, action: str, own: int) -> int:
        """In how many episodes, but for `own`, an action was listed that has other numbers at most; 2 for more."""
        episodes = self._listed.get(_kind(action), frozenset())
        return min(2, len(episodes) - (own in episodes))

    def in_view(self, text: str) -> list[str]:
        """What the text has like the names of the log's actions, numbers aside, the longest at each place."""
        words = _WORD.findall(text.lower())
        out: dict[str, None] = {}
        at = 0
        while at < len(words):
            for many in range(min(self._longest, len(words) - at), 0, -1):
                run = " ".join(words[at : at + many])
                if _kind(run) in self._all_kinds:
                    out[run] = None
                    break
            else:
                many = 1
            at += many
        return list(out)

    def filled(self, names: Sequence[str]) -> Iterable[str]:
        """Every action that can be made of these names as the log makes actions."""
        kinds = [(name, _kind(name)) for name in names]
        for skeleton, slots in self._kinds.items():
            if len(slots) > _SLOTS:
                continue
            fitting = [[name for name, kind in kinds if kind in slots[slot]] for slot in range(len(slots))]
            if all(fitting):
                filled = self._templates[skeleton].filled
                for combination in itertools.islice(itertools.product(*fitting), _FILLINGS):
                    if len(set(combination)) == len(combination):
                        yield filled(combination)


def _listed_kinds(log: StepTable) -> dict[str, frozenset[int]]:
    """Of each action that was listed, its numbers left out, the first episodes that listed it: three say enough."""
    episodes: dict[str, set[int]] = defaultdict(set)
    for listed, episode in dict.fromkeys((row.listed or (), row.episode) for row in log.rows):
        for action in listed:
            those = episodes[_kind(action)]
            if len(those) < 3:
                those.add(episode)
    return {kind: frozenset(those) for kind, those in episodes.items()}


@functools.lru_cache(maxsize=1 << 14)
def _kind(name: str) -> str:
    """A name or an action without its numbers."""
    return _DIGITS.sub("#", name.lower())


@dataclass(frozen=True)
class Items:
    """Actions that may be listed, and what describes each (n, F)."""

    actions: tuple[str, ...]
    ids: Ids


def items(
    log: StepTable,
    fillings: Fillings,
    state: EpisodeState,
    step: StepDescription,
    answer: str,
    possible: Candidates,
    chances: npt.NDArray[np.float64],
    own: int = -1,
) -> Items | None:
    """What may be listed after `answer`; None where no source had a list. `own` is the episode's number in the log."""
    sources = _sources(log, state, step, possible, chances)
    if not sources:
        return None
    before, first = frozenset(state.listed or ()), frozenset(state.first_listed or ())
    if all(after == before for _, after, _ in sources):
        return Items(tuple(state.listed or ()), np.zeros((len(before), 0), np.int64))
    acted_on = dict.fromkeys(step.phrase.lowered)
    recent = sorted(state.last_use, key=lambda name: -state.last_use[name][1])[:_RECENT]
    in_view = [name for name in fillings.in_view(answer) if name not in acted_on] or fillings.in_view(state.observation)
    names = [*acted_on, *recent, *in_view[:_IN_VIEW]]
    parse = log.language.phrasing.parse
    related = (a for a in state.last_listed if not acted_on.keys().isdisjoint(parse(a).lowered))
    parts = dict.fromkeys(after for _, after, _ in sources)
    actions = tuple(
        dict.fromkeys(
            itertools.chain(
                *(sorted(part) for part in parts),
                sorted(before),
                sorted(first),
                fillings.filled(list(dict.fromkeys(names))),
                related,
            )
        )
    )
    describe = _ItemDescriber(state, step, answer, sources, before, first, log, fillings.deeds)
    elsewhere = fillings.listed_elsewhere
    described = np.concatenate([describe(action, parse(action), elsewhere(action, own)) for action in actions])
    return Items(actions, described.reshape(len(actions), -1))


Listing = tuple[float, frozenset[str], frozenset[str]]
"""The weight of a source, its list after the step and before it, with its names exchanged for ours."""


def _sources(
    log: StepTable,
    state: EpisodeState,
    step: StepDescription,
    possible: Candidates,
    chances: npt.NDArray[np.float64],
) -> list[Listing]:
    shape_sets = log.language.shape_sets
    shape = shape_sets[log.language.shape(state.listed)]
    alike: dict[int, float] = {}
    weighed = []
    for row, chance in zip(possible.rows.tolist(), chances.tolist(), strict=True):
        if row < 0 or not chance or log.rows[row].listed_after is None:
            continue
        other = log.language.shape(log.rows[row].listed)
        if other not in alike:
            alike[other] = np.exp(6 * (len(shape & shape_sets[other]) / max(1, len(shape | shape_sets[other]))))
        weighed.append((chance * alike[other], row))
    out: list[Listing] = []
    phrasing, latest = log.language.phrasing, latest_phrases(state)
    for weight, row in sorted(weighed, reverse=True)[:SOURCES]:
        source = log.rows[row]
        renaming = phrasing.renaming(source.action, step.action) or ()
        if latest and step.phrase.names:
            renaming = history_renaming(log, row, latest, step, renaming)
        after, before = source.listed_after or (), source.listed or ()
        out.append((weight, renamed_set(after, renaming), renamed_set(before, renaming)))
    return out


_Origin = tuple[bool, bool, bool, bool, int]
"""Whether an item is in the best source's list after the step, in ours before it, in the first, in the source's before
it; and in which share of the sources, in thirds."""
_Relation = tuple[str, str, bool, tuple[str, ...]]
"""Where a name stands in the step, how it was last used, if the goal has a word of it, what could be done with it."""
_Description = tuple[str, tuple[_Relation, ...], _Origin, str, bool, int]
"""An item's skeleton, how its names relate to the step, its origin, since when it is listed, if it is the action, and
in how many other episodes one of its kind was listed."""


class _ItemDescriber:
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
    ) -> None:
        self._deeds = deeds
        self._orders: dict[str, tuple[str, ...]] = {}
        self._situation, self._top, self._before, self._first = state, sources[0], before, first
        total = sum(weight for weight, _, _ in sources) + 1e-9
        weights: dict[str, float] = defaultdict(float)
        for weight, after, _ in sources:
            for action in after:
                weights[action] += weight
        self._shares = {action: int(3 * weight / total) for action, weight in weights.items()}
        self._own = {name: str(slot) for slot, name in enumerate(step.phrase.lowered)}
        self._answer = " ".join(_WORD.findall(answer.lower()))
        self._action, self._verb = step.action, step.phrase.verb
        spoken = openings(blanked(answer, step.phrase.names))[:_SPOKEN]
        self._spoken = "|".join(sentence for sentence, _ in spoken)
        shapes = sorted(log.language.shape_sets[log.language.shape(state.listed)], key=lambda one: (len(one), one))
        self._shapes = (*shapes[:_SHAPES], *[""] * (_SHAPES - len(shapes[:_SHAPES])))
        self._could: dict[str, set[str]] = defaultdict(set)
        for item in before:
            other = log.language.phrasing.parse(item)
            for slot, name in enumerate(other.lowered):
                self._could[name].add(f"{other.skeleton}{slot}")
        self._named: dict[str, _Relation] = {}
        self._alike: dict[_Description, Ids] = {}

    def _relation(self, name: str) -> _Relation:
        """The relation of a name, in lower case."""
        relation = self._named.get(name)
        if relation is None:
            use = self._situation.last_use.get(name)
            words = _WORD.findall(name)
            spoken = f" {' '.join(words)} " in f" {self._answer} "
            in_goal = not self._situation.goal_words.isdisjoint(words)
            place = self._own.get(name, "s" if spoken else "-")
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

    def __call__(self, action: str, phrase: Phrase, elsewhere: int) -> Ids:
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
        key = phrase.skeleton, relations, origin, ago, action == self._action, elsewhere
        buckets = self._alike.get(key)
        if buckets is None:
            buckets = self._alike[key] = _buckets(
                self._verb, self._spoken, *key, self._shapes, self._order(phrase.skeleton)
            )
        return buckets


@functools.lru_cache(maxsize=1 << 14)
def _buckets(
    verb: str,
    spoken: str,
    skeleton: str,
    relations: tuple[_Relation, ...],
    origin: _Origin,
    ago: str,
    itself: bool,
    elsewhere: int,
    shapes: tuple[str, ...],
    order: tuple[str, ...],
) -> Ids:
    """What describes an item (F,): many items of many steps are alike."""
    place = ",".join(where for where, _, _, _ in relations)
    used = ",".join(where + use for where, use, _, _ in relations)
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
    ]
    for slot in range(_SLOTS):
        verb_of = use_verbs[slot] if slot < len(use_verbs) else ""
        texts += [f"{slot}{verb_of}{move}{place}{was:d}", f"{slot}{verb_of}{move}{place}>{spoken}"]
        could = relations[slot][3] if slot < len(relations) else ("",) * _COULD
        texts += [f"{slot}{one}@{move}{place}" for one in could]
        texts += [f"{slot}{could}@{move}{place}>{spoken}"]
    texts += [f"{move}{place}~{one}" for one in order]
    shaped = *_shaped(f"{move}{place}", shapes), *_shaped(f"{skeleton}{verbs}", shapes)
    return np.array([*map(_bucket, texts), *shaped])


@functools.lru_cache(maxsize=1 << 14)
def _shaped(text: str, shapes: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(_bucket(f"{text}^{shape}") for shape in shapes)


def _bucket(text: str) -> int:
    return 1 + stable_hash(text) % (BUCKETS - 1)


class ListModel(nn.Module):
    """Log-odds that an action is listed."""

    weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.zeros(BUCKETS))

    def log_odds(self, ids: Ids) -> npt.NDArray[np.float64]:
        scores: npt.NDArray[np.float64] = self.weights.numpy()[ids].sum(1, dtype=np.float64)
        return scores

    def fit(self, listed: Sequence[tuple[Ids, npt.NDArray[np.bool_]]]) -> None:
        """From the items of logged steps, and which of them were really listed; alike items are counted."""
        from scipy.optimize import minimize  # slow to import, and only a fit needs it

        ids, of = np.unique(np.concatenate([ids for ids, _ in listed]), axis=0, return_inverse=True)
        there = np.bincount(of.ravel(), np.concatenate([there for _, there in listed]), len(ids))
        times = np.bincount(of.ravel(), minlength=len(ids))
        used, columns = np.unique(ids, return_inverse=True)
        starts = np.arange(len(ids) + 1) * ids.shape[1]
        features = csr_matrix((np.ones(ids.size), columns.ravel(), starts), shape=(len(ids), len(used)))

        def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            scores = features @ weights
            nats = times * np.logaddexp(0, scores) - there * scores
            slope = features.T @ (times * expit(scores) - there)
            return nats.sum() + weights @ weights / (2 * _PRIOR), slope + weights / _PRIOR

        best = minimize(loss, np.zeros(len(used)), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        self.weights[torch.from_numpy(used)] = torch.from_numpy(best.x).float()
