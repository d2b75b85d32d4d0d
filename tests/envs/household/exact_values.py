"""Exact values on small levels, by dynamic programming over the engine's states: the truth in tests of estimators.

Exact for policies that are Markov in what the agent sees now: probabilities may depend on a turn's goal, observation
and admissible commands, not on its history (which is empty here). The value of a deterministic policy with a memory,
such as the expert's, is the return of one episode; other history-dependent policies need the tree of histories,
which this leaves out. Meant for `tiny` levels: the number of states grows with every object and receptacle.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from worldline.envs.household.engine import NOTHING_HAPPENS, GameEngine
from worldline.envs.household.game import State
from worldline.types import InputError, Turn

Probabilities = Callable[[Turn], Mapping[str, float]]
"""pi(. | turn): the commands a policy may give and how likely each is; admissible ones or not."""


class EngineWorld(Protocol):
    """A world on the household engine."""

    family: str
    max_steps: int

    def engine(self, task: str, /) -> GameEngine: ...


def exact_value(
    world: EngineWorld, task: str, policy: Probabilities, gamma: float = 1.0, horizon: int | None = None
) -> float:
    """Expected discounted return of `policy` over one episode of `task`, cut off after `horizon` steps."""
    graph = _Graph(world.engine(task))
    chances: dict[_Reached, Mapping[str, float]] = {}
    values: dict[tuple[_Reached, int], float] = {}

    def value(reached: _Reached, left: int) -> float:
        if left == 0 or reached.node.won:
            return 0.0
        if (reached, left) not in values:
            if reached not in chances:
                admissible = graph.admissible(reached.node)
                turn = Turn(world.family, graph.engine.game.task, reached.observation, admissible, ())
                chances[reached] = _checked(policy(turn))
            values[reached, left] = sum(
                chance * gain(graph.after(reached.node, command), left)
                for command, chance in chances[reached].items()
                if chance > 0
            )
        return values[reached, left]

    def gain(reached: _Reached, left: int) -> float:
        return float(reached.node.won) + gamma * value(reached, left - 1)

    return value(_Reached(graph.start, graph.engine.introduction), _horizon(world, horizon))


def optimal_value(world: EngineWorld, task: str, gamma: float = 1.0, horizon: int | None = None) -> float:
    """The best value that any agent, even one that knows where everything is, can reach: gamma^(shortest - 1)."""
    graph = _Graph(world.engine(task))
    front, visited = [graph.start], {graph.start}
    for depth in range(_horizon(world, horizon)):
        following = []
        for node in front:
            for command in graph.admissible(node):
                after = graph.after(node, command).node
                if after.won:
                    return gamma**depth
                if after not in visited:
                    visited.add(after)
                    following.append(after)
        front = following
    return 0.0


class _Node(NamedTuple):
    """A state, by its hashable key."""

    key: tuple[object, ...]
    won: bool


class _Reached(NamedTuple):
    """A state and the observation with which it was reached."""

    node: _Node
    observation: str


class _Graph:
    """The states of a game and what each command leads to, computed on request."""

    def __init__(self, engine: GameEngine) -> None:
        self.engine = engine
        self._states: dict[_Node, State] = {}
        self._after: dict[tuple[_Node, str], _Reached] = {}
        self.start = self._node(engine.game.initial)

    def admissible(self, node: _Node) -> tuple[str, ...]:
        return self.engine.options(self._states[node]).commands

    def after(self, node: _Node, command: str) -> _Reached:
        """What `command` leads to, and what the world says to it."""
        if (node, command) not in self._after:
            action = self.engine.options(self._states[node]).actions.get(command.strip())
            if action is None:
                reached = _Reached(node, NOTHING_HAPPENS)
            else:
                state = self._states[node].copy()
                answer = self.engine.perform(state, action)
                reached = _Reached(self._node(state), answer)
            self._after[node, command] = reached
        return self._after[node, command]

    def _node(self, state: State) -> _Node:
        node = _Node(state.key(), self.engine.won(state))
        self._states.setdefault(node, state)
        return node


def _checked(chances: Mapping[str, float]) -> Mapping[str, float]:
    total = sum(chances.values())
    if abs(total - 1.0) > 1e-6 or min(chances.values(), default=0.0) < 0:
        raise InputError(f"a policy's probabilities must be non-negative and sum to 1, these sum to {total:.6f}")
    return chances


def _horizon(world: EngineWorld, horizon: int | None) -> int:
    if horizon is not None and not 0 <= horizon <= world.max_steps:
        raise InputError(f"a horizon lies between 0 and the world's {world.max_steps} steps, not {horizon}")
    return world.max_steps if horizon is None else horizon
