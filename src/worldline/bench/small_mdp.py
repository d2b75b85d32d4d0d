"""A small MDP with exact values, for logs by the thousand: 4 contexts x 3 places, 4 actions, at most 5 steps.

Every step may end the episode with success, which pays 1; the value of a policy is its chance of success, computed
exactly by backward recursion. A task fixes a context and where the episode starts. All episodes of a log are played at
once. `KINDS` are the situations an estimator meets: each says who logs, on which contexts, and what the log-probs say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from worldline.ope.features import Features, HashedNgrams
from worldline.ope.log import Choices, RaggedLog, TargetLog
from worldline.types import Turn
from worldline.types.policy import Exchange

CONTEXTS, PLACES, ACTIONS, HORIZON = 4, 3, 4, 5
STATES = CONTEXTS * PLACES
WIDTH = 64
"""Of the text features: narrow, so that value functions are wrong by a little, as they are on real logs."""
Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SmallMDP:
    """`moves[s, a]` is a distribution over places of the same context, `success[s, a]` the chance to end, paid."""

    moves: Array
    success: Array

    @staticmethod
    def random(rng: np.random.Generator) -> "SmallMDP":
        moves = rng.dirichlet(np.full(PLACES, 0.5), size=(STATES, ACTIONS))
        return SmallMDP(moves, 0.6 * rng.beta(0.3, 1.0, size=(STATES, ACTIONS)))

    def values(self, policy: Array) -> Array:
        """V of every state at the first step, exactly."""
        following = np.zeros(STATES)
        first = (np.arange(STATES) // PLACES) * PLACES
        for _ in range(HORIZON):
            reached = np.stack([following[first + place] for place in range(PLACES)], axis=1)
            q = self.success + (1 - self.success) * np.einsum("sap,sp->sa", self.moves, reached)
            following = (policy * q).sum(axis=1)
        return following

    def value(self, policy: Array) -> float:
        """The chance of success, contexts and starts being uniform."""
        return float(self.values(policy).mean())

    def play(self, policies: Array, tasks: Whole, starts: Whole, rng: np.random.Generator) -> "Played":
        """One episode per row of `starts` (states), `policies[i]` (states x actions) playing it."""
        episodes = len(starts)
        state, alive = starts.copy(), np.ones(episodes, dtype=bool)
        rows, success = [], np.zeros(episodes, dtype=bool)
        for t in range(HORIZON):
            who = np.flatnonzero(alive)
            action = _drawn(policies[who, state[who]], rng)
            paid = rng.random(len(who)) < self.success[state[who], action]
            rows.append(np.stack([who, np.full(len(who), t), state[who], action, paid], axis=1))
            place = _drawn(self.moves[state[who], action], rng)
            state[who] = state[who] // PLACES * PLACES + place
            success[who[paid]] = True
            alive[who[paid]] = False
        flat = np.concatenate(rows)
        flat = flat[np.lexsort((flat[:, 1], flat[:, 0]))]
        return Played(flat[:, 0], flat[:, 1], flat[:, 2], flat[:, 3], flat[:, 4], tasks, success)


@dataclass(frozen=True, eq=False)
class Played:
    """Steps of all episodes end to end: whose episode, time, state, action, pay."""

    episode: Whole
    time: Whole
    state: Whole
    action: Whole
    paid: Whole
    tasks: Whole
    success: npt.NDArray[np.bool_]

    def log(self, behaviour: Array, policies: Whole, names: tuple[str, ...]) -> RaggedLog:
        """`behaviour` are the log-probs that were written down."""
        return RaggedLog(
            rewards=self.paid.astype(np.float64),
            behaviour=behaviour,
            offsets=np.concatenate([[0], np.cumsum(np.bincount(self.episode))]),
            tasks=self.tasks,
            policies=policies,
            terminated=self.success,
            policy_names=names,
        )

    def target(self, policy: Array) -> TargetLog:
        with np.errstate(divide="ignore"):
            logs = np.log(policy)
        actions = np.tile(np.arange(ACTIONS), len(self.state))
        offsets = np.arange(len(self.state) + 1) * ACTIONS
        return TargetLog(logs[self.state, self.action], Choices(logs[self.state].ravel(), actions, offsets))

    def features(self) -> Features:
        states, actions = _texts()
        return Features(states[self.time * STATES + self.state], actions, self.action)


@lru_cache(maxsize=1)
def _texts() -> tuple[Array, Array]:
    """The features of every (step, state), read from a text as an agent would, and of every action."""
    goals = ("put the apple in the fridge", "find a clean mug", "switch the lamp on", "heat some bread")
    views = ("you are in the hall", "you stand at the counter", "a shelf and two drawers are here")
    verbs = ("go to the left", "go to the right", "open the drawer", "look around")
    past = Exchange("you look", "wait")
    turns = [
        Turn("", goals[s // PLACES], views[s % PLACES], verbs, (past,) * t)
        for t in range(HORIZON)
        for s in range(STATES)
    ]
    ngrams = HashedNgrams(WIDTH)
    return ngrams.states(turns), ngrams.actions(verbs)


@dataclass(frozen=True, eq=False)
class LoggedSituation:
    """One log, the policies to be valued on it with their exact values, and the loggers whose policies are given."""

    log: RaggedLog
    played: Played
    candidates: dict[str, Array]
    truth: dict[str, float]
    loggers: dict[str, Array]


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _drawn(probabilities: Array, rng: np.random.Generator) -> Whole:
    drawn = (probabilities.cumsum(axis=-1) < rng.random((len(probabilities), 1))).sum(axis=-1)
    return np.asarray(np.minimum(drawn, probabilities.shape[-1] - 1), dtype=np.int64)


Kind = Callable[[np.random.Generator, int], LoggedSituation]
NEAR, FAR = (0.2, 0.6), (1.0, 2.5)
"""Standard deviation, drawn per candidate, by which its logits differ from the logger's: good and poor overlap."""


def _good(rng: np.random.Generator, n: int) -> LoggedSituation:
    base = rng.normal(size=(STATES, ACTIONS))
    return _situation(rng, n, [base], _near(rng, base))


def _poor(rng: np.random.Generator, n: int) -> LoggedSituation:
    base = rng.normal(size=(STATES, ACTIONS))
    moved = {name: 1.5 * base + rng.uniform(*FAR) * rng.normal(size=base.shape) for name in ("far", "farther", "next")}
    return _situation(rng, n, [base], moved)


def _several(rng: np.random.Generator, n: int) -> LoggedSituation:
    base = rng.normal(size=(STATES, ACTIONS))
    loggers = [base + 0.7 * rng.normal(size=base.shape) for _ in range(4)]
    return _situation(rng, n, loggers, _near(rng, base))


def _wrong_temperature(rng: np.random.Generator, n: int) -> LoggedSituation:
    """The log-probs that were written down are those of half, or of twice, the temperature."""
    base = 0.7 * rng.normal(size=(STATES, ACTIONS))
    return _situation(rng, n, [base], _near(rng, base), logged=[rng.choice([0.5, 2.0]) * base])


def _never_logged(rng: np.random.Generator, n: int) -> LoggedSituation:
    """The logger never takes the last action; the candidates take it, often or now and then."""
    base = rng.normal(size=(STATES, ACTIONS))
    base[:, -1] -= rng.uniform(0.0, 2.0)
    barred = base.copy()
    barred[:, -1] = -np.inf
    return _situation(rng, n, [barred], _near(rng, base))


def _disjoint(rng: np.random.Generator, n: int) -> LoggedSituation:
    """Two loggers, each on contexts of its own."""
    base = rng.normal(size=(STATES, ACTIONS))
    loggers = [base + 0.7 * rng.normal(size=base.shape) for _ in range(2)]
    return _situation(rng, n, loggers, _near(rng, base), disjoint=True)


KINDS: dict[str, Kind] = {
    "good": _good,
    "poor": _poor,
    "several loggers": _several,
    "wrong temperature": _wrong_temperature,
    "action never logged": _never_logged,
    "disjoint tasks": _disjoint,
}


def equal_candidates(rng: np.random.Generator, n: int) -> LoggedSituation:
    """Ten candidates of one value: actions come in pairs that do the same, and candidates differ in which of a pair."""
    base = rng.normal(size=(STATES, ACTIONS))
    base[:, 1::2] = base[:, ::2]
    candidates = {}
    for number in range(10):
        lean = rng.normal(size=(STATES, ACTIONS // 2))
        logits = base.copy()
        logits[:, ::2] += np.log(softmax(np.stack([lean, -lean], axis=-1)))[..., 0]
        logits[:, 1::2] += np.log(softmax(np.stack([lean, -lean], axis=-1)))[..., 1]
        candidates[f"c{number}"] = logits
    return _situation(rng, n, [base], candidates, paired=True)


def _near(rng: np.random.Generator, base: Array) -> dict[str, Array]:
    return {name: base + rng.uniform(*NEAR) * rng.normal(size=base.shape) for name in ("near", "nearer", "next")}


def _situation(
    rng: np.random.Generator,
    n: int,
    loggers: list[Array],
    candidates: dict[str, Array],
    logged: list[Array] | None = None,
    disjoint: bool = False,
    paired: bool = False,
) -> LoggedSituation:
    """`n` episodes on n / 2 tasks, round robin; logits in, `logged` those that the log-probs were computed with."""
    mdp = SmallMDP.random(rng)
    if paired:
        mdp = SmallMDP(np.repeat(mdp.moves[:, ::2], 2, axis=1), np.repeat(mdp.success[:, ::2], 2, axis=1))
    tasks = np.arange(n) // len(loggers) % max(2, n // 2)
    who = np.arange(n) % len(loggers)
    context = rng.integers(0, CONTEXTS, size=max(2, n // 2))[tasks]
    if disjoint:
        half = CONTEXTS // len(loggers)
        tasks = tasks * len(loggers) + who
        context = who * half + rng.integers(0, half, size=tasks.max() + 1)[tasks]
    starts = context * PLACES + rng.integers(0, PLACES, size=tasks.max() + 1)[tasks]
    policies = np.stack([softmax(each) for each in loggers])
    played = mdp.play(policies[who], tasks, starts, rng)
    written = np.stack([softmax(each) for each in (logged or loggers)])
    behaviour = np.log(written[who[played.episode], played.state, played.action])
    names = tuple(f"v{k}" for k in range(len(loggers)))
    targets = {name: softmax(logits) for name, logits in candidates.items()}
    return LoggedSituation(
        log=played.log(behaviour, who, names),
        played=played,
        candidates=targets,
        truth={name: mdp.value(policy) for name, policy in targets.items()},
        loggers={} if len(loggers) == 1 else dict(zip(names, policies, strict=True)),
    )
