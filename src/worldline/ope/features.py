"""Text as numbers for value functions: what an agent knows at a turn, what it may do, and both together.

A `Featuriser` is two functions, of turns and of action texts; hashed n-grams need no weights and are the default, a
sentence encoder or a fitted world model's latents fit the same protocol. A pair (state, action) is represented by both
vectors and their circular convolution, the count sketch of their outer product (Pham & Pagh 2013). That is linear in
the action, so the mean over a policy's actions costs no more than one action.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from worldline.ope.log import Choices, Matrix, RefusalError
from worldline.types import InputError, Turn
from worldline.user_module import import_user_module

Hashes = npt.NDArray[np.int64]
_WORD = re.compile(r"\w+|[^\w\s]")


class Featuriser(Protocol):
    """Turns and actions as vectors of one width."""

    def states(self, turns: Sequence[Turn]) -> Annotated[Matrix, "turns width"]: ...

    def actions(self, texts: Sequence[str]) -> Annotated[Matrix, "texts width"]: ...


@dataclass(frozen=True)
class HashedNgrams:
    """Words and word pairs, hashed with a sign into `width` buckets; rows have length 1. Stable on every machine."""

    width: int = 256
    recent: int = 3
    """Of the last exchanges the words are kept; of all earlier ones only which actions were taken."""

    def states(self, turns: Sequence[Turn]) -> Annotated[Matrix, "turns width"]:
        return self._rows([list(self._of_turn(turn)) for turn in turns])

    def actions(self, texts: Sequence[str]) -> Annotated[Matrix, "texts width"]:
        return self._rows([[_hashes("action", text)] for text in texts])

    def _of_turn(self, turn: Turn) -> Iterator[Hashes]:
        yield _hashes("goal", turn.goal)
        yield _hashes("now", turn.observation)
        yield _hashes("step", f"{turn.step} about{int(np.log2(turn.step + 1))}")
        for back, exchange in enumerate(reversed(turn.history[-self.recent :])):
            yield _hashes(f"did {back}", exchange.action)
            yield _hashes("saw", exchange.observation)
        for exchange in turn.history:
            yield _whole("has done", exchange.action)

    def _rows(self, documents: Sequence[Sequence[Hashes]]) -> Matrix:
        """Each field counts alike, however long its text; then the row is scaled to length 1."""
        fields = [hashes for document in documents for hashes in document]
        sizes = np.array([len(hashes) for hashes in fields], dtype=np.int64)
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        codes = np.concatenate([np.empty(0, dtype=np.int64), *fields])
        cells = np.repeat(owner, sizes) * self.width + codes // 2 % self.width
        values = (codes % 2 * 2 - 1) / np.sqrt(np.repeat(sizes, sizes))
        rows = np.bincount(cells, values, minlength=len(documents) * self.width).reshape(len(documents), self.width)
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


@lru_cache(maxsize=1 << 16)
def _hashes(field: str, text: str) -> Hashes:
    """The words of `text` and its pairs of neighbours."""
    words = _WORD.findall(text.lower())
    pairs = (f"{a} {b}" for a, b in pairwise(words))
    return np.array([zlib.crc32(f"{field}\x1f{gram}".encode()) for gram in (*words, *pairs)], dtype=np.int64)


@lru_cache(maxsize=1 << 16)
def _whole(field: str, text: str) -> Hashes:
    return np.array([zlib.crc32(f"{field}\x1f{text}".encode())], dtype=np.int64)


def joint(states: Matrix, actions: Matrix) -> Matrix:
    """[1, s, a, s * a] row by row, * being circular convolution; linear in `actions`."""
    crossed = np.fft.irfft(np.fft.rfft(states) * np.fft.rfft(actions), n=states.shape[1])
    return np.hstack([np.ones((len(states), 1)), states, actions, crossed])


@dataclass(frozen=True, eq=False)
class Ridge:
    """Least squares on `rows`, penalised in all columns but the first, which is the constant; factorised once."""

    rows: Annotated[Matrix, "rows features"]
    penalty: float = 0.1

    @cached_property
    def gram(self) -> Annotated[Matrix, "features features"]:
        """rows' rows + penalty."""
        gram = self.rows.T @ self.rows
        gram[np.diag_indices_from(gram)] += np.where(np.arange(len(gram)) == 0, 1e-9, self.penalty)
        return np.asarray(gram)

    @cached_property
    def _factor(self) -> tuple[Matrix, bool]:
        try:
            factor, lower = linalg.cho_factor(finite(self.gram, "the products of the text features"))
        except linalg.LinAlgError:
            raise RefusalError("the text features depend on each other too nearly for a regression") from None
        return factor, bool(lower)

    def weights(self, y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The coefficients that fit `y`."""
        moments = finite(self.rows.T @ y, "the values to be regressed")
        return np.asarray(linalg.cho_solve(self._factor, moments))


def finite(values: Matrix, what: str) -> Matrix:
    """`values`, which a linear system may be solved with; a refusal where one of them is beyond a double."""
    if not np.isfinite(values).all():
        raise RefusalError(f"{what} are too large for a double")
    return values


@dataclass(frozen=True, eq=False)
class Features:
    """A log as vectors. `table` holds the vectors of the action texts that codes point into."""

    states: Annotated[Matrix, "steps width"]
    table: Annotated[Matrix, "actions width"]
    logged: Annotated[npt.NDArray[np.int64], "steps"]
    """Code of the action that was taken."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.states).all() and np.isfinite(self.table).all()):
            raise InputError("--features: the text features hold a value that is no finite number")

    @cached_property
    def taken(self) -> Ridge:
        """phi(h_t, a_t), ready for regressions: they are shared by all targets on a log."""
        return Ridge(joint(self.states, self.table[self.logged]))

    def expected(self, choices: Choices) -> Annotated[Matrix, "steps features"]:
        """sum_a pi(a|h_t) phi(h_t, a)."""
        parts = (np.exp(choices.logprobs), choices.actions, choices.offsets)
        policy = sparse.csr_array(parts, shape=(len(self.states), len(self.table)))
        return joint(self.states, policy @ self.table)

    def take(self, steps: npt.NDArray[np.int64]) -> "Features":
        """The same with these steps only."""
        return Features(self.states[steps], self.table, self.logged[steps])


def featuriser(spec: str) -> Featuriser:
    """`ngrams:WIDTH`, or `module:attr`: an object, or a factory of one, with `states` and `actions`."""
    module, _, rest = spec.partition(":")
    if module == "ngrams":
        if rest and not (rest.isdecimal() and len(rest) < 7 and int(rest) > 0):
            raise InputError(f"--features {spec}: write ngrams:WIDTH, such as ngrams:512")
        return HashedNgrams(int(rest)) if rest else HashedNgrams()
    try:
        value = getattr(import_user_module(module, f"--features {spec}"), rest)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--features {spec}: neither ngrams:WIDTH nor module:attr that can be imported: {error}"
        ) from None
    made: Featuriser = value() if isinstance(value, type) else value
    return made
