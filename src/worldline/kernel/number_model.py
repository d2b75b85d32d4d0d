"""Numbers of an answer as functions of the numbers read before it, where the log says that they are.

"You own 45 euros" follows "You own 70 euros" when something costs 25, "week 6" follows "week 5", and what honey brings
is its price times its weight. A formula of one place of answers to one kind of action says what its number should be:
the last number read there, or a linear function of the numbers read last in all places, of the action's and of their
products. What it leaves open, the residual of a logged step, is added to what it says here: numbers change as they
did there.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.numerals import (
    Context,
    Numbered,
    Readings,
    action_readings,
    decimals,
    first_readings,
    numbered,
    readings,
    written,
)
from worldline.kernel.step_table import FOLDS, StepTable, fold_of

Array = npt.NDArray[np.float64]
FEWEST = 30
"""Steps that a formula needs."""
_MOST, _INPUTS = 1500, 12
"""Steps that it is fitted on at most, and numbers that it may depend on."""
_PRESENT = 0.9
"""Share of the steps that must have a number for a formula to depend on it."""
_EXPLAINS = 0.7
"""The error of a formula on unseen steps, at most, as a share of the number's spread."""
_DISTINCT = 3
"""Numbers that a place must have had: of fewer, each is a word."""
_PENALTIES = 1e-6, 1e-2
"""Of squared weights, as a share of the steps."""
_ROUNDED = 0.3
"""The least error of a formula, in units of the last digit."""
_ALTERNATIVES = 8
"""Sets of numbers in observations that have formulas of their own."""
_ACCURATE, _LEAST_REWARD = 0.25, 1e-6
"""The same of a formula of rewards; and its least error."""
REWARD: Context = ("", "reward")
_LEVELS = 8
"""Numbers of an answer whose size may decide what can be done next."""
_FARTHEST = 5.0
"""Errors that a number is off at most: farther off is no worse."""


@dataclass(frozen=True)
class Formula:
    """What a number should be, given those read before it."""

    place: Context
    inputs: tuple[Context, ...]
    differs: bool
    """Whether it says by how much the number differs from the last one read in its place."""
    products: bool
    center: Array
    scale: Array
    weights: Array
    """The first is the constant."""
    error: float
    """Root mean square, on steps that it has not seen."""
    low: float
    high: float
    """The smallest and the largest number that the log has there."""

    def value(self, read: Readings) -> float | None:
        """None where a number that it depends on has not been read."""
        if any(place not in read for place in self.inputs) or (self.differs and self.place not in read):
            return None
        columns = _columns(np.array([[read[place] for place in self.inputs]]), self.products)
        scaled = (columns - self.center) / self.scale
        value = float(self.weights[0] + scaled[0] @ self.weights[1:])
        return value + read[self.place] if self.differs else value


Alternatives = tuple[tuple[Formula, ...], ...]
"""Of one number: formulas of one kind that have not seen each fold, and the one that has seen all; then of another."""


class NumberModel:
    """The formulas of a log, and what they leave open at each of its steps."""

    def __init__(self, log: StepTable) -> None:
        self._formulas: dict[str, dict[Context, Alternatives]] = defaultdict(dict)
        """By skeleton and place."""
        self._rewards: dict[str, Alternatives] = {}
        self._residuals: list[dict[Context, float]] = [{} for _ in log.rows]
        before = _read_before(log)
        groups: dict[tuple[str, Context], list[int]] = defaultdict(list)
        by_skeleton: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(log.rows):
            by_skeleton[log.phrases[at].skeleton].append(at)
            for place in numbered(row.answer).unique:
                groups[log.phrases[at].skeleton, place].append(at)
        for (skeleton, place), rows in groups.items():
            if len(rows) < FEWEST:
                continue
            answers = [numbered(log.rows[at].answer) for at in rows]
            steps = [
                _Example(
                    fold_of(log.rows[at].episode), before[at], _places(log.rows[at].observation), one.values[place]
                )
                for at, one in zip(rows, answers, strict=True)
            ]
            least = _ROUNDED * 10.0 ** -max(decimals(one.unique[place]) for one in answers)
            alternatives = _alternatives(place, steps, least, _EXPLAINS)
            if not alternatives:
                continue
            self._formulas[skeleton][place] = alternatives
            for at, step in zip(rows, steps, strict=True):
                evaluated = _evaluated(alternatives, step.read)
                if evaluated is not None:
                    self._residuals[at][place] = step.number - evaluated[1]
        for skeleton, rows in by_skeleton.items():
            if len(rows) < FEWEST or len({log.rows[at].reward for at in rows}) < _DISTINCT:
                continue
            steps = []
            for at in rows:
                row, after = log.rows[at], _after(log.rows[at].answer)
                places = _places(row.observation) | frozenset(after)
                steps.append(_Example(fold_of(row.episode), before[at] | after, places, row.reward))
            if alternatives := _alternatives(REWARD, steps, _LEAST_REWARD, _ACCURATE):
                self._rewards[skeleton] = alternatives

    def at(self, skeleton: str, action: str, read: Readings, own: int = -1) -> "ComputedNumbers":
        """What the numbers of an answer to `action` should be; `own` is the logged episode that it belongs to."""
        alternatives = self._formulas.get(skeleton)
        if not alternatives:
            return NOTHING_COMPUTED
        both, fold = {**read, **action_readings(action)}, fold_of(own) if own >= 0 else -1
        computed = ((place, _evaluated(formulas, both, fold)) for place, formulas in alternatives.items())
        return ComputedNumbers({place: one for place, one in computed if one is not None}, self._residuals)

    def reward(self, skeleton: str, action: str, read: Readings, answer: str, own: int = -1) -> float | None:
        """What the step should earn; None where no formula says it. `own` is the logged episode that it belongs to."""
        formulas = self._rewards.get(skeleton)
        if formulas is None:
            return None
        fold = fold_of(own) if own >= 0 else -1
        evaluated = _evaluated(formulas, {**read, **action_readings(action), **_after(answer)}, fold)
        if evaluated is None:
            return None
        formula, value = evaluated
        return min(max(value, formula.low), formula.high)

    def levels(self, skeleton: str, answer: str) -> tuple[str, ...]:
        """How large the first numbers of an answer are that formulas say; as many for every answer of a log."""
        alternatives = self._formulas.get(skeleton, {})
        there = [f"{place} {_level(n)}" for place, n in numbered(answer).values.items() if place in alternatives]
        width = _LEVELS if self._formulas else 0
        return (*there[:width], *[""] * (width - len(there)))

    def gap(self, skeleton: str, text: str, answer: str) -> float:
        """How far the numbers of a text are from those of an answer, in errors of the formulas; nan where none is."""
        alternatives, there, wanted = self._formulas.get(skeleton, {}), numbered(text).values, numbered(answer).values
        gaps = []
        for place, number in wanted.items():
            if place in alternatives:
                error = alternatives[place][0][-1].error
                off = abs(there[place] - number) / error if place in there else _FARTHEST
                gaps.append(min(off, _FARTHEST))
        return sum(gaps) / len(gaps) if gaps else float("nan")


@dataclass(frozen=True)
class ComputedNumbers:
    """What the numbers of the answer to one step should be, by their place."""

    values: Mapping[Context, tuple[Formula, float]]
    residuals: Sequence[Mapping[Context, float]]
    """Of each logged step."""

    def adapted(self, text: str, row: int) -> str | None:
        """The text with its numbers as they should be, off by as much as those of logged step `row` were.

        None where none of them can be computed.
        """
        if not self.values or row < 0:
            return None
        apart, left_open = numbered(text), self.residuals[row]
        places = {place: at for at, place in enumerate(apart.contexts) if place in apart.unique}
        moved = list(apart.numbers)
        for place, (formula, value) in self.values.items():
            if place in places and place in left_open:
                here = min(max(value + left_open[place], formula.low), formula.high)
                moved[places[place]] = written(max(here, 0.0), apart.numbers[places[place]])
        return None if tuple(moved) == apart.numbers else _joined(apart, moved)

    def judged(self, text: str) -> tuple[float, float]:
        """Half the mean square of how far the text's numbers are off, in errors of formulas; how many are missing.

        The latter as a share of the numbers that are computed.
        """
        if not self.values:
            return 0.0, 0.0
        there = numbered(text).values
        off = [
            min(abs(there[place] - value) / formula.error, _FARTHEST) ** 2
            for place, (formula, value) in self.values.items()
            if place in there
        ]
        return sum(off) / (2 * max(1, len(off))), 1 - len(off) / len(self.values)


NOTHING_COMPUTED = ComputedNumbers({}, ())


@dataclass(frozen=True)
class _Example:
    """The number in a place of a logged answer, and what had been read before it."""

    fold: int
    read: Readings
    places: frozenset[Context]
    """Where the last observation had numbers."""
    number: float


def _places(text: str) -> frozenset[Context]:
    return frozenset(numbered(text).unique)


def _after(answer: str) -> dict[Context, float]:
    """The numbers of an answer, apart from those read before it."""
    return {(f"after {before}", after): value for (before, after), value in readings(answer).items()}


def _evaluated(alternatives: "Alternatives", read: Readings, fold: int = -1) -> tuple[Formula, float] | None:
    """The first formula that depends on nothing unread, and what it says."""
    for formulas in alternatives:
        value = formulas[fold].value(read)
        if value is not None:
            return formulas[fold], value
    return None


def _read_before(log: StepTable) -> list[dict[Context, float]]:
    """What had been read before each logged step, the numbers of its action with it."""
    out = []
    for number, episode in enumerate(log.episodes):
        read = first_readings(episode.goal, episode.steps[0].observation)
        first = int(log.first_row[number])
        for row in log.rows[first : first + len(episode)]:
            out.append({**read, **action_readings(row.action)})
            read |= readings(row.answer)
    return out


def _level(number: float) -> int:
    """Small numbers as they are, large ones by their size."""
    return int(number) if number < 4 else 2 + int(np.log2(number))


def _joined(apart: Numbered, numbers: Sequence[str]) -> str:
    return "".join(piece + number for piece, number in zip(apart.pieces, [*numbers, ""], strict=True))


def _columns(inputs: Array, products: bool) -> Array:
    """(N, I) -> (N, I), or with the products of all pairs, squares included."""
    if not products:
        return inputs
    first, second = np.triu_indices(inputs.shape[1])
    return np.concatenate([inputs, inputs[:, first] * inputs[:, second]], 1)


def _alternatives(place: Context, steps: Sequence[_Example], least: float, explains: float) -> Alternatives:
    """A formula for each set of numbers that observations have, the most frequent first; then one for all of them."""
    frequent = [places for places, times in Counter(one.places for one in steps).most_common() if times >= FEWEST]
    made = []
    for places in [*frequent[:_ALTERNATIVES], frozenset[Context]()]:
        own = [one for one in steps if places <= one.places]
        formulas = _formulas(place, own, least, explains) if len(own) >= FEWEST else None
        if formulas is not None:
            made.append(formulas)
    return tuple(made)


def _formulas(place: Context, steps: Sequence[_Example], least: float, explains: float) -> tuple[Formula, ...] | None:
    """Those that have not seen each fold, and the one that has seen all; None where they say little."""
    present = Counter(name for one in steps for name in one.read)
    names = [name for name, times in present.items() if times >= _PRESENT * len(steps)]
    steps = [one for one in steps if all(name in one.read for name in names)][:_MOST]
    numbers, folds = np.array([one.number for one in steps]), np.array([one.fold for one in steps])
    if len(steps) < FEWEST or np.bincount(folds, minlength=FOLDS).min() < FEWEST // 3:
        return None
    spread = float(numbers.std())
    if spread < 1e-9 or len(np.unique(numbers)) < _DISTINCT or _named(steps):
        return None
    differs = place in names
    targets = numbers - np.array([one.read[place] for one in steps]) if differs else numbers
    table = np.array([[one.read[name] for name in names] for one in steps]).reshape(len(steps), len(names))
    varied = [at for at in range(len(names)) if table[:, at].std() > 1e-9]
    related = sorted(varied, key=lambda at: -abs(_correlation(table[:, at], targets)))[:_INPUTS]
    names, table = [names[at] for at in related], table[:, related]
    best, simpler = None, 1 - len(steps) ** -0.5  # of a simpler formula's error, what a richer one may leave
    for many, products in [(0, False), (len(names), False), (len(names), True)] if names else [(0, False)]:
        columns = _columns(table[:, :many], products)
        for penalty in _PENALTIES if many else _PENALTIES[:1]:
            error = max(_unseen_error(columns, targets, folds, penalty), least)
            if best is None or error < simpler * best[0]:
                best = error, many, products, penalty
    if best is None or best[0] > explains * spread:
        return None
    error, many, products, penalty = best
    columns, inputs, low, high = _columns(table[:, :many], products), tuple(names[:many]), numbers.min(), numbers.max()
    weighed = (_ridge(columns[folds != fold], targets[folds != fold], penalty) for fold in (*range(FOLDS), -1))
    return tuple(Formula(place, inputs, differs, products, *one, error, low, high) for one in weighed)


def _unseen_error(columns: Array, targets: Array, folds: npt.NDArray[np.int64], penalty: float) -> float:
    """Root mean square on the steps of each fold, of weights that have not seen it."""
    errors = np.empty(len(targets))
    for fold in range(FOLDS):
        unseen = folds == fold
        center, scale, weights = _ridge(columns[~unseen], targets[~unseen], penalty)
        errors[unseen] = targets[unseen] - weights[0] - (columns[unseen] - center) / scale @ weights[1:]
    return float(np.sqrt(np.mean(np.square(errors))))


def _named(steps: Sequence[_Example]) -> bool:
    """Whether the number is one of the action's: then it is a name, which is exchanged with the action's."""
    same = [
        any(value == one.number for (_, order), value in one.read.items() if order.startswith("action "))
        for one in steps
    ]
    return float(np.mean(same)) > _PRESENT


def _correlation(one: Array, other: Array) -> float:
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 1e-12 else 0.0


def _ridge(columns: Array, targets: Array, penalty: float) -> tuple[Array, Array, Array]:
    """Center and scale of the columns, and the weights of a constant and of the columns so scaled."""
    center, scale = columns.mean(0), np.maximum(columns.std(0), 1e-9)
    scaled = (columns - center) / scale
    gram = scaled.T @ scaled + penalty * len(targets) * np.eye(columns.shape[1])
    weights = np.linalg.solve(gram, scaled.T @ (targets - targets.mean())) if columns.shape[1] else np.zeros(0)
    return center, scale, np.concatenate([[targets.mean()], weights])
