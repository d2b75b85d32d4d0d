"""Which actions are listed after a step: for every action that may be, the log-odds that it is.

Items come from the lists of the most likely sources (with names exchanged), from this episode's own lists, and from
skeletons filled with names in view. A linear model over their descriptions (`list_items`) is fitted on the log's lists.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from scipy.special import expit
from torch import Tensor, nn

from worldline.kernel.candidates import Candidates
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.fillings import Fillings
from worldline.kernel.language import wording
from worldline.kernel.list_items import BUCKETS, Ids, ItemDescriber, Listing
from worldline.kernel.number_model import NumberModel
from worldline.kernel.paths import opening
from worldline.kernel.phrases import renamed_set
from worldline.kernel.renamings import history_renaming, latest_phrases
from worldline.kernel.step_table import COLUMN, StepTable
from worldline.kernel.vectors import distinct_columns, used_columns

SOURCES = 5
_STEPS = 200
_PRIOR = 3.0
"""The variance of a weight before the log is read."""
_IN_VIEW, _RECENT = 12, 6


@dataclass(frozen=True)
class Items:
    """Actions that may be listed, and what describes each (n, F)."""

    actions: tuple[str, ...]
    ids: Ids


def items(
    log: StepTable,
    fillings: Fillings,
    numbers: NumberModel,
    state: EpisodeState,
    step: StepDescription,
    answer: str,
    possible: Candidates,
    chances: npt.NDArray[np.float64],
    own: int = -1,
    as_new: bool = False,
) -> Items | None:
    """What may be listed after `answer`; None where no source had a list.

    The candidates have these chances; `own` is the number of the episode in the log; `as_new`, as in `consider`.
    """
    sources = _sources(log, state, step, possible, source_chances(step, answer, possible, chances))
    if not sources:
        return None
    before, first = frozenset(state.listed or ()), frozenset(state.first_listed or ())
    if all(after == before for _, after, _ in sources):
        return Items(tuple(state.listed or ()), np.zeros((len(before), 0), np.int32))
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
                fillings.filled(list(dict.fromkeys(names)), state.goal_words),
                related,
            )
        )
    )
    levels = numbers.levels(step.phrase.skeleton, answer)
    describe = ItemDescriber(state, step, answer, sources, before, first, log, fillings.deeds, levels)
    elsewhere = [fillings.listed_elsewhere(action, state.task, own, as_new) for action in actions]
    parts_of = (describe(a, parse(a), often) for a, often in zip(actions, elsewhere, strict=True))
    described = np.concatenate([*itertools.chain.from_iterable(parts_of)])
    return Items(actions, described.reshape(len(actions), -1))


def source_chances(
    step: StepDescription, answer: str, possible: Candidates, chances: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """How much each logged candidate counts as a source of the list after `answer`.

    Those of its text do; where only this episode has shown it, or nobody, those that begin alike; else all.
    """
    begins = wording(opening(answer), step.phrase)
    logged = np.where(possible.rows >= 0, chances, 0.0)
    same = logged * [text == answer for text in possible.texts]
    if same.any():
        return same
    alike = logged * [wording(opening(text), step.phrase) == begins for text in possible.texts]
    return alike if alike.any() else logged


def _sources(
    log: StepTable,
    state: EpisodeState,
    step: StepDescription,
    possible: Candidates,
    chances: npt.NDArray[np.float64],
) -> list[Listing]:
    shapes = log.codes[np.maximum(possible.rows, 0), COLUMN["shape"]]  # a step of this episode has no row
    overlaps = log.language.shape_overlaps(int(step.codes[COLUMN["shape"]]))[shapes]
    weights = chances * np.exp(6 * overlaps)
    weighed = [
        (weight, row)
        for weight, row in zip(weights.tolist(), possible.rows.tolist(), strict=True)
        if weight and log.rows[row].listed_after is not None
    ]
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

        ids, of = _distinct_rows(np.concatenate([ids for ids, _ in listed]))
        there = np.bincount(of, np.concatenate([there for _, there in listed]), len(ids))
        times = np.bincount(of, minlength=len(ids))
        used, columns = used_columns(ids.ravel(), BUCKETS)
        starts = np.arange(len(ids) + 1) * ids.shape[1]
        features = csr_matrix((np.ones(ids.size), columns, starts), shape=(len(ids), len(used)))
        features, distinct, many = distinct_columns(features)

        def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            scores = features @ weights
            nats = times * np.logaddexp(0, scores) - there * scores
            slope = features.T @ (times * expit(scores) - there)
            return nats.sum() + weights @ (weights / many) / (2 * _PRIOR), slope + weights / (many * _PRIOR)

        best = minimize(loss, np.zeros(len(many)), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        self.weights[torch.from_numpy(used)] = torch.from_numpy((best.x / many)[distinct]).float()


def _distinct_rows(ids: Ids) -> tuple[Ids, npt.NDArray[np.int64]]:
    """The distinct rows in their order, and which of them each is. As `np.unique`, at a fifth of its cost.

    Numbers that are not negative are in the order of their bytes, the highest first: a row is compared at one go.
    """
    whole = ids.astype(">i4").view(np.dtype((np.void, 4 * ids.shape[1])))[:, 0]
    _, first, of = np.unique(whole, return_index=True, return_inverse=True)
    return ids[first], of
