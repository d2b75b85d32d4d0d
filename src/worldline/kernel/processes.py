"""Gaussian processes over many named inputs, most of them absent: which inputs count, how smooth, how much is noise.

Pure functions of arrays, beside the names of inputs. Also which combinations of outputs can be predicted at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Inputs = Mapping[str, float]
"""Inputs by name; what is absent is 0."""
_LARGEST = 1e30
"""Inputs are not larger than this: their squares are numbers."""
_FEWEST_WITH = 4
"""Examples that must have an input, and as many lack it or have another, for it to count."""
_COLUMNS, _SURE = 32, 3.0
"""Inputs of a process: those with which its output is correlated most, by so many standard errors at least."""
_SHARES, _NOISES = (0.0, 0.5, 1.0), (0.01, 0.03, 0.1, 0.3, 1.0)
"""Of the variance that is explained, the linear part; the noise beside that variance. The likeliest are taken."""
_BOUND = 6.0
"""By no more nats is a value of one output held to be more or less likely."""
_RAREST, _WIDEST = 0.03, 3.0
"""For directions: the share of the examples that an input must differ in, and how many deviations it may count."""
_PENALTIES = 0.03, 0.1, 0.3, 1.0, 3.0


@dataclass(frozen=True)
class SparseInputs:
    """Inputs by their numbers in a `NameTable`: thousands of examples with thousands of inputs each fit into memory."""

    ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


class NameTable:
    """A number for every name of an input."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._ids: dict[str, int] = {}

    def sparse(self, inputs: Inputs) -> SparseInputs:
        ids = []
        for name in inputs:
            at = self._ids.setdefault(name, len(self.names))
            if at == len(self.names):
                self.names.append(name)
            ids.append(at)
        values = np.clip(list(inputs.values()), -_LARGEST, _LARGEST)
        return SparseInputs(np.array(ids, np.int32), values.astype(np.float32))

    def inputs(self, example: SparseInputs) -> Inputs:
        return {self.names[at]: value for at, value in zip(example.ids.tolist(), example.values.tolist(), strict=True)}

    def table(self, examples: Sequence[SparseInputs]) -> tuple[list[str], Array]:
        """The names of inputs that differ, in the order of the alphabet, and the inputs of each example (n, F)."""
        with_it = np.bincount(np.concatenate([one.ids for one in examples]), minlength=len(self.names))
        kept = np.flatnonzero(with_it >= _FEWEST_WITH)
        kept = np.array(sorted(kept.tolist(), key=self.names.__getitem__), np.int64)
        place = np.full(len(self.names), -1)
        place[kept] = np.arange(len(kept))
        table = np.zeros((len(examples), len(kept)))
        for row, one in zip(table, examples, strict=True):
            there = place[one.ids] >= 0
            row[place[one.ids[there]]] = one.values[there]
        differ = (table != np.median(table, 0)).sum(0) >= _FEWEST_WITH
        return [self.names[at] for at in kept[differ].tolist()], table[:, differ]


@dataclass(frozen=True)
class Process:
    """A Gaussian process with a linear and a smooth part, of m outputs that share their inputs and their kernel."""

    names: tuple[str, ...]
    mean: Array
    scale: Array
    inputs: Array
    """(n, F), standardised."""
    linear: float
    noise: float
    inverse: Array
    """K^-1 (n, n); below, K^-1 y (n, m)."""
    solved: Array
    centre: Array
    spread: Array
    """Mean and deviation of each output (m,); below, the variance that is explained where they are 0 and 1."""
    variance: Array

    @classmethod
    def of(cls, names: Sequence[str], table: Array, outputs: Array) -> "Process":
        """The likeliest process of examples with these inputs (n, F); each of their outputs (n, m) must vary."""
        centre, spread = outputs.mean(0), outputs.std(0)
        wanted = (outputs - centre) / spread
        mean, scale = table.mean(0), table.std(0)
        centred = (table - mean) / np.where(scale > 1e-9, scale, np.inf)
        correlations = np.abs(wanted.T @ centred).max(0).round(6)  # else the number of threads might decide
        sure = int(np.count_nonzero(correlations > _SURE * np.sqrt(len(wanted))))
        kept = np.argsort(-correlations, kind="stable")[: min(sure, _COLUMNS)]
        inputs = centred[:, kept]
        best, likeliest, spectra = -np.inf, (0.0, 1.0), {}
        for linear in _SHARES:
            values, vectors = spectra[linear] = np.linalg.eigh(_kernel(inputs, inputs, linear))
            turned = np.square(vectors.T @ wanted)
            for noise in _NOISES:
                spectrum = np.maximum(values, 0.0) + noise
                explained = (turned / spectrum[:, None]).mean(0)
                likelihood = -len(wanted) * np.log(explained).sum() - outputs.shape[1] * np.log(spectrum).sum()
                if likelihood > best:
                    best, likeliest = likelihood, (linear, noise)
        linear, noise = likeliest
        values, vectors = spectra[linear]
        inverse = vectors / (np.maximum(values, 0.0) + noise) @ vectors.T
        return cls(
            tuple(names[at] for at in kept.tolist()),
            mean[kept],
            scale[kept],
            inputs,
            linear,
            noise,
            inverse,
            inverse @ wanted,
            centre,
            spread,
            np.einsum("nm,nm->m", wanted, inverse @ wanted) / len(wanted),
        )

    def log_ratios(self, here: Inputs, values: Array) -> Array:
        """How much likelier outputs (c, m) are with these inputs than they are with any, in nats (c,)."""
        inputs = (np.array([here.get(name, 0.0) for name in self.names])[None] - self.mean) / self.scale
        near = _kernel(inputs, self.inputs, self.linear)[0]
        own = _kernel(inputs, inputs, self.linear)[0, 0]
        variance = self.variance * max(own + self.noise - near @ self.inverse @ near, 1e-3 * self.noise)
        wanted = (values - self.centre) / self.spread
        gaps = np.square(wanted - near @ self.solved) / variance
        out: Array = np.clip(0.5 * (np.square(wanted) - gaps - np.log(variance)), -_BOUND, _BOUND).sum(1)
        return out


def _kernel(first: Array, second: Array, linear: float) -> Array:
    """(n, m): a share `linear` of a linear kernel, the rest of a smooth one."""
    size = max(first.shape[1], 1)
    products = first @ second.T / size
    apart = (np.square(first).sum(1)[:, None] + np.square(second).sum(1)) / size - 2 * products
    out: Array = linear * products + (1 - linear) * np.exp(-np.maximum(apart, 0.0) / 2)
    return out


def predictable_directions(table: Array, outputs: Array, most: int) -> Array:
    """Orthogonal combinations (V, <= most) of outputs (n, V), of mean 0, that a ridge regression on inputs (n, F)
    predicts best. Each example is predicted by the others: a direction counts by how far predictions go with it.
    """
    differs = (np.abs(table - np.median(table, 0)) > 1e-9).mean(0)
    table = table[:, differs >= _RAREST]
    if not table.shape[1]:
        return np.zeros((outputs.shape[1], 0))
    inputs = np.clip((table - table.mean(0)) / (table.std(0) + 1e-9), -_WIDEST, _WIDEST)
    values, vectors = np.linalg.eigh(inputs @ inputs.T / inputs.shape[1])
    values, turned = np.maximum(values, 0.0), vectors.T @ outputs
    least, best = np.inf, np.zeros_like(outputs)
    for penalty in _PENALTIES:
        shrunk = values / (values + penalty)
        leverage = np.clip(np.square(vectors) @ shrunk, 0.0, 0.99)[:, None]
        predicted = (vectors @ (shrunk[:, None] * turned) - leverage * outputs) / (1 - leverage)
        error = float(np.square(outputs - predicted).sum())
        if error < least:
            least, best = error, predicted
    together = best.T @ outputs
    strengths, directions = np.linalg.eigh(together + together.T)
    kept = np.argsort(-strengths)[:most]
    out: Array = directions[:, kept[strengths[kept] > 0]]
    return out
