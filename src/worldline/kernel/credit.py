"""Which candidates a logged answer is credited to: those with its text, and others that stand in for it."""

import numpy as np
import numpy.typing as npt

from worldline.kernel.candidates import Candidates
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import Considered, KernelModel
from worldline.kernel.number_model import NumberModel
from worldline.kernel.numerals import number_gap
from worldline.kernel.paths import opening
from worldline.kernel.step_table import LoggedStep
from worldline.kernel.words import overlap, vocabulary

_NEAR = 0.05
"""How much less of an answer's words a text may share than the nearest, at a third of its credit (1 / e)."""
_TEXT_ALONE = 0.1
"""Credit of the right text from a step with another outcome."""


def closeness(
    numbers: NumberModel, considered: Considered, answer: str, state: EpisodeState
) -> npt.NDArray[np.float32]:
    """How near each candidate is to the answer: 1 for its text.

    Where none has it, others stand in for it: those of its wording, the nearer their numbers the more, else those that
    begin as it does, have the same words of the goal and share the most words with it. Numbers that have formulas count
    by the errors of these. A gate that is fitted on the rest alone would take what recurs ("you see nothing") for
    likelier than it is, since what is seen once is never among the candidates.
    """
    possible, phrase = considered.candidates, considered.step.phrase
    exact = np.array([text == answer for text in possible.texts], np.float32)
    if exact.any():
        return exact
    worded = state.language.sort(answer, phrase)
    off = np.array([numbers.gap(phrase.skeleton, text, answer) for text in possible.texts])
    if worded not in considered.wordings.texts:
        return _nearest(considered, answer, state, np.nan_to_num(off))
    alike = considered.wordings.of == considered.wordings.texts.index(worded)
    if not np.isnan(off).any():
        return np.where(alike, np.exp(off[alike].min() - off), 0.0).astype(np.float32)
    plain = state.language.plain
    gaps = np.array([number_gap(plain(text), plain(answer)) for text in possible.texts])
    nearest = gaps[alike].min()
    if not np.isfinite(nearest):  # none has as many numbers as the answer
        return np.where(alike, 1.0, 0.0).astype(np.float32)
    return np.where(alike, (1 + nearest) / (1 + gaps), 0.0).astype(np.float32)


def _nearest(
    considered: Considered, answer: str, state: EpisodeState, off: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    """Of the candidates that begin as the answer does, and of these with its words of the goal, those nearest to it.

    `off`: how far the numbers of each are from its own.
    """
    phrase, texts = considered.step.phrase, considered.candidates.texts
    number_free = state.language.number_free
    begins, wanted = number_free(opening(answer), phrase), state.rare_goal_words - vocabulary(considered.step.action)
    alike = np.array([number_free(opening(text), phrase) == begins for text in texts])
    if not alike.any():
        return np.zeros(len(texts), np.float32)
    of_goal = np.array([vocabulary(text) & wanted == vocabulary(answer) & wanted for text in texts])
    alike = alike & of_goal if (alike & of_goal).any() else alike
    wanted_text = phrase.blanked(answer)
    overlaps = np.array([overlap(phrase.blanked(text), wanted_text) for text in texts])
    nearness = overlaps / _NEAR - off
    return np.where(alike, np.exp(nearness - nearness[alike].max()), 0.0).astype(np.float32)


def agreement(model: KernelModel, possible: Candidates, row: LoggedStep, spread: float) -> npt.NDArray[np.float32]:
    """1 for a source with the same outcome; less where its outcome was another."""
    agrees = np.zeros(len(possible), np.float32)
    for at, source in enumerate(possible.rows.tolist()):
        if source < 0:
            agrees[at] = float(not row.ended)
        else:
            other = model.log.rows[source]
            gap = (other.reward - row.reward) / spread
            agrees[at] = float(other.ended == row.ended) * float(np.exp(-0.5 * gap**2))
    return _TEXT_ALONE + (1 - _TEXT_ALONE) * agrees
