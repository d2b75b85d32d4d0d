"""The parts of the world model `wm`, and how each is switched off: for `kernel_parts.py`, never in the product.

A part is off while one or more attributes of the package have a stand-in. Its signs are what a fitted model shows of
it: where all of them are 0 in the full model the part does nothing in that world, and where it is off all must be 0.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from worldline.kernel import (
    compared_rows,
    credit,
    described_steps,
    episode_state,
    fitting,
    lists,
    number_model,
    outcome,
    outcome_features,
    phrases,
    step_table,
    wordings,
)
from worldline.kernel import model as kernel
from worldline.kernel.candidates import EXACT, KINDS
from worldline.kernel.compared_rows import COMPARED
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.expectations import TARGETS
from worldline.kernel.features import NAMES
from worldline.kernel.fillings import Fillings
from worldline.kernel.gate import Gate
from worldline.kernel.goal_words import GoalWords
from worldline.kernel.goals import GoalNames
from worldline.kernel.language import Language
from worldline.kernel.model import KernelModel
from worldline.kernel.number_model import NumberModel
from worldline.kernel.outcome import OutcomeModel, RewardRules
from worldline.kernel.paths import Moves
from worldline.kernel.phrases import Phrasing
from worldline.kernel.shared_facts import SharedFacts
from worldline.kernel.step_table import COLUMN
from worldline.kernel.wordings import TaskBids, TaskPairs, WordingModel

Make = Callable[[Any], Any]
"""What stands in for an attribute, made of the attribute."""
Swap = tuple[Any, str, Make]


@dataclass(frozen=True)
class Part:
    """A part of the world model: what stands in for what while it is off, and its signs."""

    off: tuple[Swap, ...]
    signs: tuple[str, ...] = ()


@contextmanager
def switched_off(part: Part) -> Iterator[None]:
    """The part is off within the block."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in part.off]
    try:
        for owner, name, make in part.off:
            setattr(owner, name, make(vars(owner)[name]))
        yield
    finally:
        for owner, name, original in reversed(before):
            setattr(owner, name, original)


def signs_of(model: KernelModel) -> dict[str, float]:
    """What a fitted model shows of its parts; of features, how much they vary over the candidates."""
    numbers, language, outcomes = model.numbers, model.log.language, model.outcomes
    varies = model.gate.scale.numpy() - np.float32(0.05)
    few = outcomes.classes.few
    return {
        "formulas": float(sum(map(len, numbers._formulas.values()))),
        "reward formulas": float(len(numbers._rewards)),
        "reward rules": float(len(outcomes.rules._rules)),
        "expectations": float(model.expects),
        "wording weights": float(model.wording_model.weights.abs().sum()),
        "blend": _moved(model.blend.exponents.tolist()),
        "forecast": float(model.forecast.tables.abs().sum()),
        "outcome blend": _moved(model.outcome_blend.exponents.tolist()),
        "bids": float(len(model.task_bids._bids)),
        "pairs": float(len(model.task_pairs._pairs)),
        "moves that cancel": float(len(language.moves.undone) + len(language.moves.idle)),
        "goals shown": float(model.log.goal_shown.sum()),
        "idle wordings": float(len(language.idle)),
        "own words": float(len(language.own_words)),
        "recurring wordings": float(len(language.recurring)),
        "relations": float(sum(map(len, model.log.relations))),
        "correction": float(outcomes.corrects),
        "correction of many": float(outcomes.corrects and not few),
        "correction of few": float(outcomes.corrects and few),
        "lists": float(model.lists),
        **{f"feature {name}": float(one) for name, one in zip(NAMES, varies, strict=True)},
    }


def _moved(exponents: Sequence[float]) -> float:
    return abs(exponents[0] - 1) + abs(exponents[1])


def _put(value: object) -> Make:
    return lambda original: value


def _says(value: object) -> Make:
    """A function that says the same to everything."""
    return lambda original: lambda *given, **named: value


def _then(change: Callable[[Any], object]) -> Make:
    """The same initialisation, and a change of what it made."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def initialised(self: Any, *given: Any, **named: Any) -> None:
            original(self, *given, **named)
            change(self)

        return initialised

    return make


def _without_kinds(*kinds: str) -> Part:
    """No candidates of these kinds, where there are others."""
    numbers = [KINDS.index(kind) for kind in kinds]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def candidates(*given: Any) -> Any:
            made = original(*given)
            kept = ~np.isin(made.kinds, numbers)
            if not kept.any():
                return made
            texts = tuple(itertools.compress(made.texts, kept))
            arrays = {name: getattr(made, name)[kept] for name in ("rows", "places", "kinds", "renames")}
            return replace(made, texts=texts, **arrays)

        return candidates

    always = [kind for kind in kinds if kind != "other"]  # what has no like-worded step has no other candidates
    return Part(((kernel, "candidates", make),), tuple(f"feature kind: {kind}" for kind in always))


def _without_features(*names: str) -> Part:
    """These features of the gate are 0."""
    columns = [NAMES.index(name) for name in names]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def described(*given: Any) -> Any:
            features = original(*given)
            features[:, columns] = 0.0
            return features

        return described

    return Part(((KernelModel, "described", make),), tuple(f"feature {name}" for name in names))


def _without_texts(*beginnings: str) -> Part:
    """No features of the wording model that begin so."""

    def make(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        return lambda *given: [text for text in original(*given) if not text.startswith(beginnings)]

    return Part(((wordings, "_features", make),))


def _together(*parts: Part) -> Part:
    return Part(
        tuple(itertools.chain(*(part.off for part in parts))), tuple(itertools.chain(*(part.signs for part in parts)))
    )


def _pathless(original: Callable[..., StepDescription]) -> Callable[..., StepDescription]:
    """Every step is on a path of its own."""
    numbers = itertools.count(1)

    def describe(self: EpisodeState, action: str) -> StepDescription:
        described = original(self, action)
        described.codes[[COLUMN["path"], COLUMN["deeds"]]] = -next(numbers)
        return described

    return describe


def _exact(original: object) -> Callable[..., Any]:
    def closeness(numbers: object, considered: Any, answer: str, state: object) -> Any:
        return np.array([text == answer for text in considered.candidates.texts], np.float32)

    return closeness


def _ones(original: object) -> Callable[..., Any]:
    return lambda model, possible, row, spread: np.ones(len(possible), np.float32)


def _unexpected(original: object) -> Callable[..., Any]:
    return lambda self, one, possible: np.zeros((len(possible), len(TARGETS)), np.float32)


def _equally_worded(original: object) -> Callable[..., Any]:
    return lambda self, many, fold=-1: np.zeros(len(many.of), np.float32)


def _of_few_alone(original: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    return lambda self, steps, held_out: original(self, steps, held_out) if self.classes.few else {}


def _linear(original: object) -> Callable[..., Any]:
    return lambda self, scaled: (scaled @ self.linear).squeeze(-1)


def _same_names_alone(original: object) -> Callable[..., Any]:
    def renaming(self: Phrasing, old: str, new: str) -> tuple[()] | None:
        return () if self.parse(old) == self.parse(new) else None

    return renaming


def _list_of_best_source(original: object) -> Callable[..., Any]:
    def listed(self: KernelModel, request: Any, step: Any, text: str, possible: Any, chances: Any) -> Any:
        counted = lists.source_chances(step, text, possible, chances)
        sources = lists._sources(self.log, request.state, step, possible, counted)
        return (tuple(sorted(sources[0][1])) if sources else request.state.listed), {}

    return listed


def _off(owner: object, name: str, make: Make, *signs: str) -> Part:
    return Part(((owner, name, make),), signs)


_NOWHERE = np.zeros(0, np.int64)
_CONTEXT_SIZES = [name for name in NAMES if name.startswith("rows of this")]
_AGREEING = [name for name in NAMES if name.startswith("agreeing") or name == "share among same shapes"]
_KIND_FEATURES = [name for name in NAMES if name.startswith(("exact and", "renamed and", "renamed,"))]

PARTS: dict[str, Part] = {
    "wordings": _together(
        _off(WordingModel, "log_chances", _equally_worded, "feature log-probability of the wording"),
        _off(fitting, "_fit_wordings", _says(None), "wording weights"),
        _off(fitting, "_fit_blend", _says(None), "blend"),
    ),
    "expectations": _off(KernelModel, "_expected", _unexpected, "expectations"),
    "forecast": _together(
        _off(fitting, "_fit_forecast", _says(None), "forecast"),
        _off(fitting, "_fit_outcome_blend", _says(None), "outcome blend"),
        _without_features("log-share of its outcome among the candidates", "log-probability of its outcome"),
    ),
    "outcome correction": _off(OutcomeModel, "fit", _says({}), "correction"),
    "outcome correction of many": _off(OutcomeModel, "fit", _of_few_alone, "correction of many"),
    "list model": _together(_off(KernelModel, "_listed", _list_of_best_source), _off(fitting, "_fit_lists", _says({}))),
    "formulas": _off(number_model, "_alternatives", _says(()), "formulas", "reward formulas"),
    "paths": _off(EpisodeState, "describe", _pathless, "feature same path", "feature same deeds"),
    "edits": _without_kinds("transferred", "transferred over other words", "recalled", "edited"),
    "goals": _together(
        _off(GoalNames, "shows", _says(False), "goals shown"),
        _without_kinds("renamed by goal", "renamed by its place in the goal"),
    ),
    "numbers moved": _without_kinds("shifted", "between"),
    "steps as new": _off(fitting, "AS_NEW", _put(0.0)),
    "credit of stand-ins": _off(described_steps, "closeness", _exact),
    "gate: hidden layer": _off(Gate, "_scores", _linear),
    "reward rules": _off(RewardRules, "fit", _says(None), "reward rules"),
    "reward formulas": _off(NumberModel, "__init__", _then(lambda those: those._rewards.clear()), "reward formulas"),
    **{f"kind: {kind}": _without_kinds(kind) for at, kind in enumerate(KINDS) if at != EXACT},
    "relations": _off(EpisodeState, "relations", _says(()), "relations"),
    "deeds and sentences": _off(EpisodeState, "deeds_and_sentences", _says(())),
    "standing": _off(EpisodeState, "standing", _says(())),
    "roles": _off(episode_state, "_roles", _says(())),
    "comparisons": _off(EpisodeState, "_comparisons", _says(())),
    "unseen": _off(EpisodeState, "unseen", _says(())),
    "owed": _off(EpisodeState, "__init__", _then(lambda state: setattr(state, "owed", frozenset()))),
    "done with": _off(EpisodeState, "done_with", _says([])),
    "features: agreeing": _without_features(*_AGREEING),
    "features: conjunctions": _without_features(
        *(name for name in NAMES if name.startswith("same ") and " and " in name)
    ),
    "features: history": _without_features("same history", "same last_two", "same path", "same deeds"),
    "features: cosines": _without_features(*COMPARED[:4]),
    "features: numbers compared": _without_features(*COMPARED[4:8], "numbers in proportion"),
    "shared facts": _off(SharedFacts, "_attributes", _says({})),
    "features: relations, steps, shapes": _without_features(*COMPARED[8:12]),
    "features: kinds in context": _without_features(*_KIND_FEATURES),
    "features: shown before": _without_features(
        "nothing changes", "shown before", "shown before to this action", "logged text"
    ),
    "features: new words": _without_features("words new to the task", "words new to the episode"),
    "features: words of the goal": _without_features(*(name for name in NAMES if name.startswith("words of the goal"))),
    "features: number placed": _without_features(
        *(name for name in NAMES if name.startswith("number ") or name == "number between them")
    ),
    "features: sizes of contexts": _without_features(*_CONTEXT_SIZES, "one is recalled", "one is edited"),
    "features: share of the wording": _without_features("log-share of its wording among the candidates"),
    "wordings: blend": _off(fitting, "_fit_blend", _says(None), "blend"),
    "wordings: bids of the task": _off(TaskBids, "__init__", _then(lambda those: those._bids.clear()), "bids"),
    "wordings: pairs of the task": _off(TaskPairs, "__init__", _then(lambda those: those._pairs.clear()), "pairs"),
    "wordings: pairs": _without_texts("beside ", "in the task beside "),
    "wordings: numbers": _without_texts("at least ", "among "),
    "wordings: past": _without_texts("heard ", "done ", "fact ", "did ", "before ", "happened ", "role "),
    "wordings: relations": _without_texts("relation ", "stands "),
    "outcome: like happenings": Part(((outcome, "_PRIOR", _put(0.0)), (outcome, "_PRIOR_OF_MANY", _put(0.0)))),
    "outcome: sentences": _off(outcome_features, "sentences", _says(())),
    "outcome: rare words": _off(Language, "recurring_words", _says([])),
    "outcome: past": _off(outcome_features, "at_least", _says(())),
    "outcome: weight of what decides": _off(outcome_features, "_STRONG", _put(1)),
    "lists: fillings": _off(Fillings, "filled", _says(())),
    "lists: listed elsewhere": _off(Fillings, "listed_elsewhere", _says(0)),
    "credit of the nearest": _off(
        credit, "_nearest", lambda original: lambda of, *more: np.zeros(len(of.candidates), np.float32)
    ),
    "credit by outcome": _off(described_steps, "agreement", _ones),
    "steps without the policy": _off(described_steps, "OTHER_POLICIES", _put(0.0)),
    "rows of other sorts": _off(compared_rows, "_of_other_sorts", _says(_NOWHERE)),
    "rows of the task": _off(compared_rows, "_OF_TASK", _put(0)),
    "rows of the episode": _off(compared_rows, "_own_steps", _says([]), "feature of this episode"),
    "goals shown": _off(GoalNames, "shows", _says(False), "goals shown"),
    "goal words": _off(GoalWords, "of", _put(classmethod(lambda cls, *given: cls())), "goal words"),
    "moves that cancel": _off(Moves, "of", _put(classmethod(lambda cls, episodes: cls())), "moves that cancel"),
    "idle wordings": _off(step_table, "idle_wordings", _says((frozenset(), frozenset())), "idle wordings"),
    "own words": _off(step_table, "own_words", _says(frozenset()), "own words"),
    "recurring wordings": _off(step_table, "recurring_numbers", _says({}), "recurring wordings"),
    "words of verbs": _off(phrases, "_of_verbs", _says({})),
    "names exchanged": _off(Phrasing, "renaming", _same_names_alone, "feature kind: renamed"),
}
"""Every part by its name; first the larger ones, and those that show in values alone."""
