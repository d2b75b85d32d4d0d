"""Log-probabilities of a logger that wrote none: a policy cloned from its own episodes, by conditional logit.

p(a|h) is proportional to exp(theta . phi(h, a)) over the listed actions, phi hashed words of state, action and both
together. The log-probs of an episode come from a fit without its task (cross-fitting): a clone of the very step would
look surer than the logger was. Estimates that rest on a clone say so.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from worldline.ope.features import HashedNgrams
from worldline.ope.log import Codes, Matrix, RefusalError
from worldline.ope.text import TextLog

WIDTH = 64
FOLDS = 5
PENALTY = 1e-3
MOST_STEPS = 20_000
FEWEST_STEPS = 20


@dataclass(frozen=True, eq=False)
class ListedActions:
    """Every listed action of some steps: state and action vectors by row, rows of a step side by side."""

    states: Matrix
    actions: Matrix
    offsets: npt.NDArray[np.int64]

    @property
    def rows(self) -> Matrix:
        crossed = np.fft.irfft(np.fft.rfft(self.states) * np.fft.rfft(self.actions), n=self.states.shape[1])
        return np.hstack([self.actions, crossed])

    def logprobs(self, theta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return _log_softmax(self.rows @ theta, self.offsets)


def cloned_logprobs(text: TextLog, own: npt.NDArray[np.bool_], tasks: Codes, seed: int = 0) -> npt.NDArray[np.float64]:
    """log p of every option of every step, by a clone of the steps `own`; `tasks` is the task of each step."""
    if text.unlisted:
        raise RefusalError(f"a clone needs the admissible actions, and {text.unlisted} steps do not list them")
    if own.sum() < FEWEST_STEPS:
        raise RefusalError(f"a clone needs {FEWEST_STEPS} steps of its logger, and there are {int(own.sum())}")
    ngrams = HashedNgrams(WIDTH)
    states, table = ngrams.states(text.turns), ngrams.actions(text.actions)
    step = np.repeat(np.arange(len(text.turns)), np.diff(text.option_offsets))
    chosen = text.option_codes == text.logged[step]
    folds = np.random.default_rng(seed).permutation(int(tasks.max()) + 1)[tasks] % FOLDS
    result = np.empty(len(step))
    for fold in range(FOLDS):
        learned = np.flatnonzero(own & (folds != fold))
        learned = learned[:: max(1, len(learned) // MOST_STEPS)]
        theta = _fit(_options(states, table, text, learned), _of(chosen, text, learned))
        predicted = np.flatnonzero(folds == fold)
        if len(predicted):
            result[np.isin(step, predicted)] = _options(states, table, text, predicted).logprobs(theta)
    return result


def _options(states: Matrix, table: Matrix, text: TextLog, steps: npt.NDArray[np.int64]) -> ListedActions:
    sizes = np.diff(text.option_offsets)[steps]
    codes = _of(text.option_codes, text, steps)
    return ListedActions(states[np.repeat(steps, sizes)], table[codes], np.concatenate([[0], np.cumsum(sizes)]))


def _of(values: npt.NDArray[np.generic], text: TextLog, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    sizes = np.diff(text.option_offsets)[steps]
    ends = np.cumsum(sizes)
    shift = np.repeat(text.option_offsets[steps] - (ends - sizes), sizes)
    return np.asarray(values[np.arange(len(shift)) + shift], dtype=np.int64)


def _fit(options: ListedActions, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    rows, count = options.rows, len(options.offsets) - 1
    wanted = rows[chosen.astype(bool)].sum(axis=0)

    def loss(theta: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        logs = _log_softmax(rows @ theta, options.offsets)
        value = -float(logs[chosen.astype(bool)].sum()) / count + PENALTY * float(theta @ theta)
        gradient = (rows.T @ np.exp(logs) - wanted) / count + 2 * PENALTY * theta
        return value, gradient

    solution = optimize.minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(solution.x)


def _log_softmax(scores: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    sizes = np.diff(offsets)
    top = np.repeat(np.maximum.reduceat(scores, offsets[:-1]), sizes)
    mass = np.add.reduceat(np.exp(scores - top), offsets[:-1])
    return np.asarray(scores - top - np.repeat(np.log(mass), sizes))
