"""A small world whose values are known exactly: states, text actions, random ends, a step budget; lengths vary.

Values come from backward recursion over (time, state), episodes from the same tables; nothing of `worldline.ope` is
used to make either.
"""

from dataclasses import dataclass

import numpy as np

from worldline.ope.log import Choices, RaggedLog, TargetLog

ACTIONS = ("go left", "go right", "open the drawer", "wait")


@dataclass(frozen=True)
class TabularWorld:
    """`moves[s, a]` is a distribution over next states, `stops[s, a]` the chance that the episode ends there."""

    starts: np.ndarray  # (tasks, states): where each task begins
    moves: np.ndarray  # (states, actions, states)
    stops: np.ndarray  # (states, actions)
    rewards: np.ndarray  # (states, actions)
    allowed: np.ndarray  # (states, actions) of bool
    horizon: int

    @staticmethod
    def random(seed: int, states: int = 5, tasks: int = 40, horizon: int = 6) -> "TabularWorld":
        rng = np.random.default_rng(seed)
        actions = len(ACTIONS)
        allowed = rng.random((states, actions)) < 0.75
        allowed[:, 0] = allowed[:, 1] = True
        starts = rng.dirichlet(np.full(states, 0.5), size=tasks)
        moves = rng.dirichlet(np.ones(states), size=(states, actions))
        stops = rng.uniform(0.05, 0.35, size=(states, actions))
        rewards = rng.uniform(-0.2, 1.0, size=(states, actions))
        return TabularWorld(starts, moves, stops, rewards, allowed, horizon)

    def policy(self, seed: int, temperature: float = 1.0) -> np.ndarray:
        """A random softmax policy (states, actions) over the allowed actions."""
        logits = np.random.default_rng(seed).normal(size=self.allowed.shape) / temperature
        weights = np.where(self.allowed, np.exp(logits), 0.0)
        return weights / weights.sum(axis=1, keepdims=True)

    def mixed(self, policy: np.ndarray, epsilon: float) -> np.ndarray:
        return (1 - epsilon) * policy + epsilon * self.allowed / self.allowed.sum(axis=1, keepdims=True)

    def values(self, policy: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """Exact Q (horizon, states, actions) and V (horizon, states)."""
        q = np.zeros((self.horizon, *self.rewards.shape))
        v = np.zeros((self.horizon + 1, len(self.rewards)))
        for t in reversed(range(self.horizon)):
            q[t] = self.rewards + gamma * (1 - self.stops) * (self.moves @ v[t + 1])
            v[t] = (policy * q[t]).sum(axis=1)
        return q, v[:-1]

    def value(self, policy: np.ndarray, gamma: float) -> float:
        """Exact V(pi), tasks being uniform."""
        return float((self.starts @ self.values(policy, gamma)[1][0]).mean())

    def play(self, policy: np.ndarray, episodes: int, seed: int, drawn_tasks: int = 0) -> "TabularLog":
        """Episodes round robin over the tasks (or over so many drawn at random), all at once."""
        rng = np.random.default_rng(seed)
        tasks = np.arange(episodes) % len(self.starts)
        if drawn_tasks:
            tasks = rng.integers(0, len(self.starts), size=drawn_tasks)[np.arange(episodes) % drawn_tasks]
        state = _draw(self.starts[tasks], rng)
        alive = np.ones(episodes, dtype=bool)
        lengths = np.zeros(episodes, dtype=np.int64)
        terminated = np.zeros(episodes, dtype=bool)
        rows: list[np.ndarray] = []
        for t in range(self.horizon):
            who = np.flatnonzero(alive)
            action = _draw(policy[state[who]], rng)
            rows.append(np.stack([who, np.full(len(who), t), state[who], action], axis=1))
            lengths[who] += 1
            ends = rng.random(len(who)) < self.stops[state[who], action]
            terminated[who[ends]] = True
            state[who] = _draw(self.moves[state[who], action], rng)
            alive[who[ends]] = False
        flat = np.concatenate(rows)
        flat = flat[np.lexsort((flat[:, 1], flat[:, 0]))]
        return TabularLog(self, policy, flat[:, 1], flat[:, 2], flat[:, 3], lengths, tasks, terminated)


@dataclass(frozen=True)
class TabularLog:
    """Time, state and action of every logged step."""

    world: TabularWorld
    policy: np.ndarray
    time: np.ndarray
    state: np.ndarray
    action: np.ndarray
    lengths: np.ndarray
    tasks: np.ndarray
    terminated: np.ndarray

    @property
    def ragged(self) -> RaggedLog:
        return RaggedLog(
            rewards=self.world.rewards[self.state, self.action],
            behaviour=np.log(self.policy[self.state, self.action]),
            offsets=np.concatenate([[0], np.cumsum(self.lengths)]),
            tasks=self.tasks,
            policies=np.zeros(len(self.lengths), dtype=np.int64),
            terminated=self.terminated,
        )

    def target(self, policy: np.ndarray) -> TargetLog:
        """Log-probabilities of the logged actions and of all allowed ones."""
        with np.errstate(divide="ignore"):
            logs = np.log(policy)
        allowed = self.world.allowed[self.state]
        step, action = np.nonzero(allowed)
        offsets = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))])
        return TargetLog(logs[self.state, self.action], Choices(logs[self.state[step], action], action, offsets))

    def at(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Time-dependent tables read at the logged steps."""
        return q[self.time, self.state, self.action], v[self.time, self.state]


def _draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1))).sum(axis=1)


def dyadic_world() -> TabularWorld:
    """A world of halves and quarters, so that a finite log can hold every path exactly as often as its probability."""
    moves = np.array([[[1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]], [[0.5, 0.5], [0, 1], [1, 0], [1, 0]]])
    stops = np.array([[0.25, 0.5, 0.25, 0.25], [0.5, 0.0, 0.25, 0.5]])
    rewards = np.array([[0.3, -0.1, 0.7, 0.2], [1.0, 0.0, 0.4, -0.5]])
    allowed = np.array([[True, True, True, False], [True, True, False, True]])
    return TabularWorld(np.array([[0.5, 0.5]]), moves, stops, rewards, allowed, horizon=3)


DYADIC_BEHAVIOUR = np.array([[0.25, 0.5, 0.25, 0.0], [0.5, 0.25, 0.0, 0.25]])


def population(world: TabularWorld, policy: np.ndarray) -> TabularLog:
    """Every path of a dyadic world, each as often as it is likely: a log without sampling error."""
    paths: list[tuple[list[tuple[int, int, int]], bool, float]] = []

    def walk(path: list[tuple[int, int, int]], state: int, chance: float) -> None:
        for action in np.flatnonzero(policy[state]):
            here = [*path, (len(path), state, int(action))]
            p, stop = chance * policy[state, action], world.stops[state, action]
            if len(here) == world.horizon:
                paths.append((here, False, p))
                continue
            if stop:
                paths.append((here, True, p * stop))
            for following in np.flatnonzero(world.moves[state, action]):
                walk(here, int(following), p * (1 - stop) * world.moves[state, action, following])

    for state in np.flatnonzero(world.starts[0]):
        walk([], int(state), world.starts[0, state])
    unit = 1 / 8192
    counts = [round(p / unit) for *_, p in paths]
    assert np.allclose(np.array(counts) * unit, [p for *_, p in paths])
    assert np.isclose(sum(counts) * unit, 1)
    repeated = [path for path, count in zip(paths, counts, strict=True) for _ in range(count)]
    flat = np.array([step for path, *_ in repeated for step in path])
    lengths = np.array([len(path) for path, *_ in repeated])
    ended = np.array([ended for _, ended, _ in repeated])
    return TabularLog(world, policy, flat[:, 0], flat[:, 1], flat[:, 2], lengths, np.arange(len(lengths)), ended)
