"""Exact values on small levels, by dynamic programming over the engine's states: what estimators are tested against.

Exact for policies that are Markov in what the agent sees now: probabilities may depend on a turn's goal, observation
and admissible commands, not on its history (which is empty here). The value of a deterministic policy with a memory,
such as the expert's, is the return of one episode; other history-dependent policies need the tree of histories,
which this leaves out. Meant for `tiny` levels: the number of states grows with every object and receptacle.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from worldline.envs.household.engine import NOTHING_HAPPENS, Stage
from worldline.envs.household.game import State
from worldline.types import InputError, Turn

Probabilities = Callable[[Turn], Mapping[str, float]]
"""pi(. | turn): the commands a policy may give and how likely each is; admissible ones or not."""


class StagedWorld(Protocol):
    """A world on the household engine."""

    family: str
    max_steps: int

    def stage(self, task: str, /) -> Stage: ...


def exact_value(
    world: StagedWorld, task: str, policy: Probabilities, gamma: float = 1.0, horizon: int | None = None
) -> float:
    """Expected discounted return of `policy` over one episode of `task`, cut off after `horizon` steps."""
    graph = _Graph(world.stage(task))
    chances: dict[_Seen, Mapping[str, float]] = {}
    known: dict[tuple[_Seen, int], float] = {}

    def value(seen: _Seen, left: int) -> float:
        if left == 0 or seen.node.won:
            return 0.0
        if (seen, left) not in known:
            if seen not in chances:
                admissible = graph.admissible(seen.node)
                turn = Turn(world.family, graph.stage.game.task, seen.observation, admissible, ())
                chances[seen] = _checked(policy(turn))
            known[seen, left] = sum(
                chance * gain(graph.after(seen.node, command), left)
                for command, chance in chances[seen].items()
                if chance > 0
            )
        return known[seen, left]

    def gain(seen: _Seen, left: int) -> float:
        return float(seen.node.won) + gamma * value(seen, left - 1)

    return value(_Seen(graph.start, graph.stage.introduction), _horizon(world, horizon))


def optimal_value(world: StagedWorld, task: str, gamma: float = 1.0, horizon: int | None = None) -> float:
    """The best value that any agent, even one that knows where everything is, can reach: gamma^(shortest - 1)."""
    graph = _Graph(world.stage(task))
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


class _Seen(NamedTuple):
    """A state and the observation with which it was reached."""

    node: _Node
    observation: str


class _Graph:
    """The states of a game and what each command leads to, found when asked for."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._states: dict[_Node, State] = {}
        self._after: dict[tuple[_Node, str], _Seen] = {}
        self.start = self._node(stage.game.initial)

    def admissible(self, node: _Node) -> tuple[str, ...]:
        return self.stage.options(self._states[node]).commands

    def after(self, node: _Node, command: str) -> _Seen:
        """What `command` leads to, and what the world says to it."""
        if (node, command) not in self._after:
            action = self.stage.options(self._states[node]).actions.get(command.strip())
            if action is None:
                seen = _Seen(node, NOTHING_HAPPENS)
            else:
                state = self._states[node].copy()
                said = self.stage.perform(state, action)
                seen = _Seen(self._node(state), said)
            self._after[node, command] = seen
        return self._after[node, command]

    def _node(self, state: State) -> _Node:
        node = _Node(state.key(), self.stage.won(state))
        self._states.setdefault(node, state)
        return node


def _checked(chances: Mapping[str, float]) -> Mapping[str, float]:
    total = sum(chances.values())
    if abs(total - 1.0) > 1e-6 or min(chances.values(), default=0.0) < 0:
        raise InputError(f"a policy's probabilities must be non-negative and sum to 1, these sum to {total:.6f}")
    return chances


def _horizon(world: StagedWorld, horizon: int | None) -> int:
    if horizon is not None and not 0 <= horizon <= world.max_steps:
        raise InputError(f"a horizon lies between 0 and the world's {world.max_steps} steps, not {horizon}")
    return world.max_steps if horizon is None else horizon
