"""Which logged episodes share hidden facts with an episode: what is broken, who is guilty, what a guest likes.

A hidden fact shows in many answers. Episodes of one task have it in common, so how far their answers to one question
agree says what an agreement is worth (record linkage, Fellegi & Sunter 1969): nothing where chance answers, of a
paraphrase as much as of the very words, of a rare answer more than of one that everybody gets. Two episodes of any
tasks are then compared by the sum of log p(both values | same task) / p(both values) over all attributes of which both
have a value. In a log whose tasks have one episode each nothing can be learned of this, and the sum is 0.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.vectors import Array

Fact = tuple[int, int]
"""Codes of an attribute (an action, how a sentence begins) and of its value (the answer, how the sentence goes on)."""
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
_PRIOR = 6.0
"""Pairs of values that are as usual, added to those that are counted."""
_MOST, _MOST_PAIRS = 60, 1 << 21
"""Values of an attribute, and pairs of values in all; beyond these it counts whether two are equal, and no more."""
_ROUNDING = 1e-9
_REMEMBERED = 1 << 10
"""Records of tasks that are kept: a fit leaves out other rows of a task at every step."""
_SUREST = 0.95
"""The share of agreements in a task that are no chance, at most."""
_PARTS, WHOLE = 4, -1
"""Parts of a log, each judged by what the others count: else a rare pair would be likely because it is judged."""


@dataclass(frozen=True, eq=False)
class Record:
    """The facts of an episode or a task, and of each logged episode the log-ratio of sharing its hidden facts."""

    log_ratios: Array
    facts: frozenset[Fact] = frozenset()
    part: int = WHOLE
    """The part of the log that said nothing of what agreements are worth."""

    @functools.cached_property
    def values(self) -> dict[int, list[int]]:
        """Of each attribute."""
        values: dict[int, list[int]] = defaultdict(list)
        for attribute, value in sorted(self.facts):
            values[attribute].append(value)
        return values


@dataclass(frozen=True)
class Records:
    """What is known of an episode, and what the log says of its task."""

    episode: Record
    task: Record


class SharedFacts:
    """What agreements between episodes of a log are worth: to a logged episode, by the other parts of the log."""

    def __init__(self, facts: Sequence[Iterable[Fact]] = (), tasks: Sequence[str] = ()) -> None:
        """The facts of each episode of a log, and its task."""
        self._tasks = np.unique(tasks, return_inverse=True)[1]
        rows: dict[int, dict[Fact, None]] = defaultdict(dict)
        for episode, own in enumerate(facts):
            for attribute, value in own:
                rows[attribute][episode, value] = None
        of_episodes: list[int] = self._tasks.tolist()
        self._rows = {
            attribute: np.array([*own], np.int64) for attribute, own in rows.items() if _tells([*own], of_episodes)
        }
        self._by_part: dict[int, dict[int, _ComparedValues]] = {}

    def record(self, facts: Iterable[Fact] = (), part: int = WHOLE) -> Record:
        """Of an episode with these facts."""
        return self.extended(Record(np.zeros(len(self._tasks), np.float32), part=part), facts)

    def extended(self, record: Record, facts: Iterable[Fact]) -> Record:
        """With more facts; one that it has already says nothing new."""
        new, attributes = frozenset(facts) - record.facts, self._attributes(record.part)
        log_ratios = record.log_ratios.copy()
        for attribute, value in sorted(new):
            if attribute in attributes:
                attributes[attribute].add(value, log_ratios)
        return Record(log_ratios, record.facts | new, record.part)

    def agreement(self, record: Record, facts: Iterable[Fact]) -> float:
        """How much likelier some facts are beside a record's values of the same attributes: a log-ratio."""
        attributes, total = self._attributes(record.part), 0.0
        for attribute, value in dict.fromkeys(facts):
            others = record.values.get(attribute, ()) if attribute in attributes else ()
            if others:
                total += sum(attributes[attribute].log_ratio(other, value) for other in others) / len(others)
        return total

    def _attributes(self, part: int) -> "dict[int, _ComparedValues]":
        """What agreements are worth by all parts but one."""
        attributes = self._by_part.get(part)
        if attributes is None:
            judging = np.array([part_of(episode) != part for episode in range(len(self._tasks))], np.bool_)
            counted = {attribute: _Counts.of(rows, self._tasks, judging) for attribute, rows in self._rows.items()}
            pairs = sum(one.pairs for one in counted.values())
            usual = min(max(sum(one.agreements for one in counted.values()) / pairs if pairs else 0.0, 0.0), _SUREST)
            paired = _paired(counted)
            together = _Together.of([counted[attribute] for attribute in sorted(paired)])
            attributes = self._by_part[part] = {
                attribute: _ComparedValues.of(one, usual, together if attribute in paired else None)
                for attribute, one in counted.items()
            }
        return attributes


def part_of(episode: int) -> int:
    """The part of a logged episode; WHOLE of one that is not logged. As good as by chance: policies may take turns."""
    return (episode * 2654435761 >> 12) % _PARTS if episode >= 0 else WHOLE


class TaskRecords:
    """What the steps of a log say of their tasks."""

    def __init__(self, shared: SharedFacts, tasks: Sequence[str], facts: Sequence[Sequence[Fact]]) -> None:
        """The task and the facts of each row."""
        self._shared, self._facts = shared, facts
        rows: dict[str, list[int]] = defaultdict(list)
        for at, task in enumerate(tasks):
            rows[task].append(at)
        self._rows = {task: np.array(own) for task, own in rows.items()}
        self._kept: dict[tuple[str, int, bytes], Record] = {}

    def of(self, task: str, left_out: npt.NDArray[np.bool_] | None, part: int = WHOLE) -> Record:
        """The record of a task, less the rows left out."""
        rows = self._rows.get(task, np.zeros(0, np.int64))
        away = left_out[rows] if left_out is not None else np.zeros(len(rows), np.bool_)
        key = task, part, away.tobytes()
        record = self._kept.get(key)
        if record is None:
            if len(self._kept) >= _REMEMBERED:
                self._kept.clear()
            facts = (fact for row in rows[~away].tolist() for fact in self._facts[row])
            record = self._kept[key] = self._shared.record(facts, part)
        return record


@dataclass(frozen=True, eq=False)
class _Counts:
    """The values of one attribute: each row is an episode with one of its values."""

    rows: Places
    """Of each row, which of `episodes` it is of."""
    episodes: Places
    tasks: Places
    places: Places
    """Of its value, among `values`; beyond them, where no episode that counts has it."""
    shares: Floats
    """1 / the values that the episode has."""
    values: Places
    frequencies: Floats
    """Of each value, among the episodes that count."""
    pairs: float
    """Pairs of episodes of one task that count; below, those of them that agree where by chance they would not."""
    agreements: float

    @classmethod
    def of(cls, rows: Places, all_tasks: Places, judging: npt.NDArray[np.bool_]) -> "_Counts":
        """`rows` (n, 2) are the different pairs of an episode and its value; only those of `judging` ones count."""
        all_episodes, given = rows.T
        counting = judging[all_episodes]
        values = np.unique(given[counting])
        places = np.searchsorted(values, given)
        places[~np.isin(given, values)] = len(values)
        episodes, of_rows = np.unique(all_episodes, return_inverse=True)
        shares = 1.0 / np.bincount(of_rows)[of_rows]
        own_tasks = np.where(counting, all_tasks[all_episodes], len(all_tasks) + all_episodes)
        tasks, size = np.unique(own_tasks, return_inverse=True)[1], len(values) + 1
        at = np.unique(tasks * size + places, return_inverse=True)[1]
        pairs = _whole(float(np.square(np.bincount(tasks, shares)).sum() - len(episodes)))
        agreed = _whole(float(np.square(np.bincount(at, shares)).sum() - np.square(shares).sum()))
        frequencies = np.bincount(places[counting], shares[counting], len(values)) / max(shares[counting].sum(), 1.0)
        chance = float(np.square(frequencies).sum())
        agreements = (agreed - pairs * chance) / (1 - chance) if pairs and chance < 1 else 0.0
        return cls(of_rows, episodes, tasks, places, shares, values, frequencies, pairs, agreements)

    @property
    def together(self) -> Floats:
        """(values, values): how often each two come together in a task."""
        by_task, by_episode = self._mass(self.tasks), self._mass(self.rows)
        out: Floats = by_task.T @ by_task - by_episode.T @ by_episode
        return out

    def _mass(self, groups: Places) -> Floats:
        """(groups, values)"""
        mass = np.zeros((int(groups.max()) + 1, len(self.values) + 1))
        np.add.at(mass, (groups, self.places), self.shares)
        return mass[:, :-1]


def _whole(count: float) -> float:
    """Without what rounding leaves of nothing."""
    return count if count > _ROUNDING else 0.0


def _tells(rows: Sequence[Fact], tasks: Sequence[int]) -> bool:
    """Whether an attribute has several values, and two episodes of one task have one."""
    episodes = {episode for episode, _ in rows}
    return len({value for _, value in rows}) > 1 and len({tasks[episode] for episode in episodes}) < len(episodes)


def _paired(counted: Mapping[int, _Counts]) -> frozenset[int]:
    """The attributes whose values are compared in pairs: those with the most episodes of one task first."""
    few = [attribute for attribute in sorted(counted) if len(counted[attribute].values) <= _MOST]
    few.sort(key=lambda attribute: -counted[attribute].pairs)
    sizes = np.cumsum([len(counted[attribute].values) ** 2 for attribute in few])
    return frozenset(few[: int(np.searchsorted(sizes, _MOST_PAIRS, side="right"))])


@dataclass(frozen=True, eq=False)
class _Together:
    """How often two values come together in a task, whatever the attribute, and how often they would by chance."""

    codes: npt.NDArray[np.uint64]
    seen: Floats
    expected: Floats

    @classmethod
    def of(cls, many: Sequence[_Counts]) -> "_Together":
        nothing = np.zeros(0)
        codes = np.concatenate([np.zeros(0, np.uint64), *(_pairs(one.values).ravel() for one in many)])
        distinct, at = np.unique(codes, return_inverse=True)
        seen, expected = np.zeros((2, len(distinct)))
        np.add.at(seen, at, np.concatenate([nothing, *(one.together.ravel() for one in many)]))
        np.add.at(expected, at, np.concatenate([nothing, *(_by_chance(one).ravel() for one in many)]))
        return cls(distinct, seen, expected)

    def ratios(self, counts: _Counts, prior: Floats) -> Floats:
        """Of each two values of an attribute, how much more often they come together than by chance.

        Its own pairs decide, as far as there are any; beside them, those of all attributes with these values.
        """
        at = np.searchsorted(self.codes, _pairs(counts.values))
        of_all = (self.seen[at] + _PRIOR * prior) / (self.expected[at] + _PRIOR)
        out: Floats = (counts.together + _PRIOR * of_all) / (_by_chance(counts) + _PRIOR)
        return out


def _by_chance(counts: _Counts) -> Floats:
    """(values, values): how often each two would come together."""
    out: Floats = counts.pairs * np.outer(counts.frequencies, counts.frequencies)
    return out


def _pairs(values: Places) -> npt.NDArray[np.uint64]:
    """A code of each two."""
    codes = values.astype(np.uint64)
    out: npt.NDArray[np.uint64] = codes[:, None] * np.uint64(0x9E3779B97F4A7C15) ^ codes
    return out


@dataclass(frozen=True, eq=False)
class _ComparedValues:
    """What one value of an attribute says of another one."""

    counts: _Counts
    log_ratios: Floats
    """(values, values); where they are not `paired`, (values, 2): where the other one differs, where it is the same."""
    paired: bool = True

    @classmethod
    def of(cls, counts: _Counts, usual: float, together: _Together | None) -> "_ComparedValues":
        """`usual` is the share of agreements that are no chance in the whole log; None: values are not paired."""
        sure = (counts.agreements + _PRIOR * usual) / (counts.pairs + _PRIOR)
        sure = min(max(sure, 0.0), _SUREST)
        same = (sure + (1 - sure) * counts.frequencies) / counts.frequencies
        if together is None:
            return cls(counts, np.log(np.stack([np.full(len(same), 1 - sure), same], 1)), paired=False)
        prior = np.full((len(same), len(same)), 1 - sure)
        np.fill_diagonal(prior, same)
        return cls(counts, np.log(together.ratios(counts, prior)))

    def log_ratio(self, value: int, other: int) -> float:
        """How much likelier one value is beside the other; 0 where no episode that counts has one of them."""
        at, other_at = self._places.get(value), self._places.get(other)
        if at is None or other_at is None:
            return 0.0
        return float(self.log_ratios[at, other_at if self.paired else int(at == other_at)])

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        return {value: at for at, value in enumerate(self.counts.values.tolist())}

    def add(self, value: int, log_ratios: Array) -> None:
        """Add what a value says of each episode that has one."""
        counts, at = self.counts, self._places.get(value)
        if at is None:
            return
        own = self.log_ratios[at] if self.paired else np.full(len(counts.values), self.log_ratios[at, 0])
        if not self.paired:
            own[at] = self.log_ratios[at, 1]
        of_rows = counts.shares * np.append(own, 0.0)[counts.places]
        log_ratios[counts.episodes] += np.bincount(counts.rows, of_rows)
