"""Fitting the kernel model: a sample of logged steps, each answered by the other episodes of the log.

First the wording model, on folds of the log; then the gate, with what the folds say of each other's steps among its
features; then outcomes and lists, given the right answer. One episode in six decides when to stop, and how far outcomes
may be corrected, and is what the held-out figures are of.
"""

import gc
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt

from worldline.kernel.blend import BlendedStep
from worldline.kernel.described_steps import DescribedStep, described_steps, helping
from worldline.kernel.features import FORECAST, LIKELIHOODS, NAMES, WORDING
from worldline.kernel.forecast import ForecastExercise
from worldline.kernel.gate import Gate
from worldline.kernel.left_out import fits_without, measuring_left_out
from worldline.kernel.lists import Items, items
from worldline.kernel.model import Chances, KernelModel, draw
from worldline.kernel.outcome import JudgedStep, outcome_of
from worldline.kernel.step_table import fold_of
from worldline.kernel.wordings import WordingExercise
from worldline.types import Trajectory, derive_seed, uniform

Stage = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""
AS_NEW = 0.1
"""So many of the steps, as a share, are answered to the gate once more, as if nobody had done them in their task."""
EXPECTED_GAIN = 0.02
"""The nats per held-out step that expectations must be worth: they cost time, and where similar steps say all, they add
noise."""
STEPS = 4000
"""Logged steps that are described for the fit."""
HELD_OUT = 6
"""One of so many episodes is held out."""
LEAST_SHARED = 3000
"""Steps of a log below which no other process is worth its start."""
_ALLOCATIONS = 50_000
"""Objects more than were freed after which Python looks for cycles: a fit keeps many, and they are not in cycles."""


def unwatched(what: str, done: int, of: int) -> None:
    """Nobody watches the stages of a fit."""


def fit_kernel(
    episodes: Sequence[Trajectory], seed: int = 0, steps: int = STEPS, jobs: int = 1, stage: Stage = unwatched
) -> tuple[KernelModel, dict[str, float]]:
    """A kernel model of the log, and what was measured on held-out episodes and on policies left out.

    With several jobs, that many processes share the work. The result is the same.
    """
    shared = _worth_it(episodes, jobs)
    each = max(1, shared // (1 + fits_without(episodes)))
    without = partial(fit_model, seed=seed, steps=steps // 2, jobs=each)
    with measuring_left_out(episodes, without, seed, shared) as errors:
        model, figures = fit_once(episodes, seed, steps, each, stage)
        left_out = errors(partial(stage, "wm without some policies"))
    if left_out is not None:
        figures |= {"left out error": left_out.model, "left out error of the bag": left_out.bag}
    return model, figures


def _worth_it(episodes: Sequence[Trajectory], jobs: int) -> int:
    return jobs if sum(map(len, episodes)) > LEAST_SHARED else 1


def fit_model(episodes: Sequence[Trajectory], seed: int, steps: int, jobs: int = 1) -> KernelModel:
    """The model alone."""
    return fit_once(episodes, seed, steps, jobs)[0]


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Python looks for cycles among all that is kept less often; not at all where that was switched off."""
    first, *others = gc.get_threshold()
    gc.set_threshold(max(_ALLOCATIONS, first) if first else 0, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


@_seldom_collected()
def fit_once(
    episodes: Sequence[Trajectory], seed: int = 0, steps: int = STEPS, jobs: int = 1, stage: Stage = unwatched
) -> tuple[KernelModel, dict[str, float]]:
    """The same without the policies left out."""
    stage("wm: reading the log", 0, len(episodes))
    rng = random.Random(derive_seed(seed, "held out"))
    held_out = frozenset(rng.sample(range(len(episodes)), max(1, len(episodes) // HELD_OUT)))
    others = set(range(len(episodes))) - held_out
    with helping(episodes, _worth_it(episodes, jobs)) as helpers:
        model = KernelModel(episodes)
        described = partial(described_steps, model, helpers=helpers)
        sample = described(seed, steps, progress=partial(stage, "wm: reading the log"))
        new = described(derive_seed(seed, "new"), int(AS_NEW * steps), others, as_new=True)
    stage("wm: fitting wordings", 0, 1)
    _fit_wordings(model, sample, seed)
    _fit_forecast(model, sample)
    stage("wm: wording the steps", 0, 1)
    sample, new = ([one.worded(model) for one in part] for part in (sample, new))
    stage("wm: fitting the gate", 0, 1)
    figures = _fit_gate(model, [*sample, *new], held_out, derive_seed(seed, "gate") % 2**31)
    if not model.shares:
        sample, new = ([one.unshared() for one in part] for part in (sample, new))
    if not model.expects:
        sample, new = ([one.unexpecting() for one in part] for part in (sample, new))
    both = [*sample, *new]
    stage("wm: fitting the blend", 0, 1)
    judges = [one for one in sample if one.row.episode in held_out]
    _fit_blend(model, judges)
    _fit_outcome_blend(model, judges)
    stage("wm: fitting outcomes", 0, 1)
    weighed = model.weighed([one.considered for one in both], [one.exercise.features for one in both])
    of_sample = weighed[: len(sample)]
    figures |= _measured(sample, of_sample, held_out)
    judged = [
        _judged(model, one, chances, seed)
        for one, chances in zip(sample, of_sample, strict=True)
        if model.outcomes.classes.few or one.right.any()  # without one, it would learn to mend what is never imagined
    ]
    figures |= model.outcomes.fit(judged, held_out)
    stage("wm: fitting lists", 0, 1)
    return model, figures | _fit_lists(model, both, weighed, held_out)


def _fit_gate(
    model: KernelModel, described: Sequence[DescribedStep], held_out: frozenset[int], seed: int
) -> dict[str, float]:
    """Fit the gate, with shared facts and expectations where held-out steps gain by them; the loss in nats per step."""
    plain, alone = Gate(len(NAMES)), Gate(len(NAMES))
    unexpecting = [one.unexpecting() for one in described]
    figures = {"nats": plain.fit([one.exercise for one in unexpecting], held_out, seed)}
    without_facts = alone.fit([one.unshared().exercise for one in unexpecting], held_out, seed)
    model.shares.fill_(figures["nats"] < without_facts)
    if not model.shares:
        plain, figures, described = alone, {"nats": without_facts}, [one.unshared() for one in described]
    if any(one.exercise.features[:, LIKELIHOODS].any() for one in described):
        nats = model.gate.fit([one.exercise for one in described], held_out, seed)
        figures["nats with expectations"] = nats
        model.expects.fill_(figures["nats"] - nats >= EXPECTED_GAIN)
    else:
        model.expects.fill_(False)
    if model.expects:
        return figures | {"nats": figures["nats with expectations"], "nats without expectations": figures["nats"]}
    model.gate = plain
    model.__dict__.pop("expectations", None)  # of no more use, and large
    return figures


def _fit_wordings(model: KernelModel, sample: Sequence[DescribedStep], seed: int) -> None:
    exercises = [
        WordingExercise(fold_of(one.row.episode), one.considered.wordings, one.right_wordings) for one in sample
    ]
    model.wording_model.fit(exercises, derive_seed(seed, "wordings") % 2**31)


def _fit_forecast(model: KernelModel, sample: Sequence[DescribedStep]) -> None:
    number = model.outcomes.classes.number
    model.forecast.fit(
        [
            ForecastExercise(fold_of(one.row.episode), one.considered.before, number(outcome_of(one.row)), one.weight)
            for one in sample
        ]
    )


def _fit_blend(model: KernelModel, held_out: Sequence[DescribedStep]) -> None:
    steps = []
    for one in held_out:
        (chances,) = model.gate.chances(one.exercise.features, [len(one.exercise.features)])
        steps.append(_blended(one, chances, WORDING, one.considered.wordings.of, one.right_wordings))
    model.blend.fit(steps)


def _fit_outcome_blend(model: KernelModel, held_out: Sequence[DescribedStep]) -> None:
    number, steps = model.outcomes.classes.number, []
    for one in held_out:
        (chances,) = model.weighed([one.considered], [one.exercise.features])
        of, right = _numbered(one.considered.outcomes, number(outcome_of(one.row)))
        steps.append(_blended(one, chances, FORECAST, of, right))
    model.outcome_blend.fit(steps)


def _numbered(classes: npt.NDArray[np.int64], right: int) -> tuple[npt.NDArray[np.int64], list[int]]:
    """The number of each candidate's class among theirs, and that of the right one, if it is there."""
    distinct, of = np.unique(classes, return_inverse=True)
    return of, np.flatnonzero(distinct == right).tolist()


def _blended(
    one: DescribedStep, chances: Chances, column: int, of: npt.NDArray[np.int64], right: Sequence[int]
) -> BlendedStep:
    """`of` is the number of each candidate's wording or outcome, `column` the feature that says how likely it is."""
    log_chances = np.zeros(1 + of.max())
    log_chances[of] = one.exercise.features[:, column]
    mass = np.bincount(of, chances, len(log_chances)).astype(np.float64)
    return BlendedStep(mass, log_chances, right, one.exercise.weight)


def _measured(
    sample: Sequence[DescribedStep], weighed: Sequence[Chances], held_out: frozenset[int]
) -> dict[str, float]:
    """Of held-out steps: how often the likeliest text is right, and how often the right one is among the candidates.

    The latter also of those that ended their episode, unless all or none did; one that can be given is added, so that
    few ends do not decide.
    """
    exact, possible, ended, weights = [], [], [], []
    for one, chances in zip(sample, weighed, strict=True):
        if one.row.episode not in held_out:
            continue
        mass: dict[str, float] = defaultdict(float)
        for text, chance in zip(one.considered.candidates.texts, chances.tolist(), strict=True):
            mass[text] += chance
        exact.append(max(mass, key=lambda text: mass[text]) == one.row.answer)
        possible.append(one.row.answer in mass)
        ended.append(one.row.ended)
        weights.append(one.exercise.weight)
    figures = {
        "exact": float(np.average(exact, weights=weights)),
        "possible": float(np.average(possible, weights=weights)),
        "held out steps": float(len(exact)),
    }
    at_ends = [one for one, end in zip(possible, ended, strict=True) if end]
    if not at_ends or len(at_ends) == len(ended):
        return figures
    return figures | {"possible ends": (sum(at_ends) + 1) / (len(at_ends) + 1)}


def _judged(model: KernelModel, one: DescribedStep, chances: Chances, seed: int) -> JudgedStep:
    """Where no candidate has the text that was answered, one is drawn, as when it is imagined, and its sources vote."""
    right = one.right
    if not right.any():
        texts = one.considered.candidates.texts
        drawn = texts[draw(chances, uniform(seed, "votes", one.row.episode, one.row.step))]
        right = np.array([text == drawn for text in texts])
    mass = chances * right
    happening = one.state.happening(one.considered.step, one.row.answer)
    votes = model.votes(one.state.rewards, one.considered.candidates, mass / mass.sum(), happening)
    ids = model.outcome_features(one.state, one.considered.step, one.row.answer)
    return JudgedStep(one.row.episode, ids, votes, happening, outcome_of(one.row), one.weight)


def _fit_lists(
    model: KernelModel, sample: Sequence[DescribedStep], weighed: Sequence[Chances], held_out: frozenset[int]
) -> dict[str, float]:
    """Fit the list model on lists after the right answers; the share of held-out lists that it has exactly."""
    listed: list[tuple[Items, frozenset[str], DescribedStep]] = []
    for one, chances in zip(sample, weighed, strict=True):
        if not model.lists or one.row.listed_after is None:
            continue
        step, answer, possible, own = one.considered.step, one.row.answer, one.considered.candidates, one.row.episode
        may_be = items(
            model.log, model.fillings, model.numbers, one.state, step, answer, possible, chances, own, one.as_new
        )
        if may_be is not None:
            listed.append((may_be, frozenset(one.row.listed_after), one))
    training = [
        (may_be.ids, np.array([action in there for action in may_be.actions]))
        for may_be, there, one in listed
        if may_be.ids.size and one.row.episode not in held_out
    ]
    if training:
        model.list_model.fit(training)
    exact, weights = [], []
    for may_be, there, one in listed:
        if one.row.episode in held_out:
            scores = model.list_model.log_odds(may_be.ids) if may_be.ids.size else np.ones(len(may_be.actions))
            exact.append({a for a, score in zip(may_be.actions, scores, strict=True) if score > 0} == there)
            weights.append(one.weight)
    return {"exact lists": float(np.average(exact, weights=weights))} if exact else {}
