"""True values without playing, for scripted policies of worlds whose chances can be summed: `lake` and `blackjack`."""

import functools
import itertools
import random

import numpy as np

from worldline.envs.small.blackjack import DECK, HIT, BlackjackGame, BlackjackWorld, worth
from worldline.envs.small.lake import ACTIONS, FLAG, STEPS, LakeGame, LakeWorld, transitions
from worldline.envs.small.script import Script, ScriptedPolicy
from worldline.envs.small.world import SmallWorld
from worldline.types import Exchange, Turn


def exact_value(world: SmallWorld, script: Script) -> float | None:
    """The mean return of a policy that looks at nothing but the present observation and the step; None elsewhere."""
    policy = ScriptedPolicy(world, script)
    if isinstance(world, LakeWorld):
        return _lake(world, policy)
    return _blackjack(policy) if isinstance(world, BlackjackWorld) else None


def _lake(world: LakeWorld, policy: ScriptedPolicy) -> float:
    """The chance to be on the flag after the last step: that of every square, carried on step by step."""
    table, actions = transitions(), ACTIONS[world.config.actions]
    game = LakeGame(world.config, random.Random(0))
    squares = np.eye(16)[0]
    for step in range(STEPS):
        after = np.zeros(16)
        for square in np.flatnonzero(squares):
            game.square = int(square)
            options = policy.options(_turn(game.introduction(), actions, step))
            for action, p in options.items():
                after += squares[square] * p * table[square, actions.index(action)]
        squares = after
    return float(squares @ FLAG)


def _blackjack(policy: ScriptedPolicy) -> float:
    """The mean over all first cards; a hand is its total with aces as 1, whether it has one, and its cards' number."""

    @functools.cache
    def value(total: int, ace: bool, shown: int, step: int) -> float:
        if total > 21:
            return -1.0
        best = worth((total - 1, 1) if ace else (total,))
        turn = _turn(BlackjackGame.view(*best, shown), BlackjackGame.ACTIONS, step)
        hit = policy.options(turn).get(HIT, 0.0)
        stick = sum(p * _won(best[0], other) for other, p in dealer_totals((shown,)).items()) if hit < 1 else 0.0
        drawn = sum(value(total + card, ace or card == 1, shown, step + 1) for card in DECK) / len(DECK) if hit else 0.0
        return hit * drawn + (1 - hit) * stick

    hands = itertools.product(DECK, repeat=3)
    return sum(value(a + b, 1 in (a, b), shown, 0) for a, b, shown in hands) / len(DECK) ** 3


@functools.cache
def dealer_totals(cards: tuple[int, ...]) -> dict[int, float]:
    """The distribution of the dealer's last total from these cards on; 22 stands for every total above 21."""
    total = worth(cards)[0]
    if len(cards) > 1 and total >= 17:
        return {min(total, 22): 1.0}
    totals: dict[int, float] = {}
    for card in DECK:
        for last, p in dealer_totals(tuple(sorted((*cards, card)))).items():
            totals[last] = totals.get(last, 0.0) + p / len(DECK)
    return totals


def _won(own: int, other: int) -> int:
    return (other > 21 or own > other) - (other <= 21 and own < other)


def _turn(observation: str, actions: tuple[str, ...], step: int) -> Turn:
    return Turn("generic", "", observation, actions, (Exchange("", ""),) * step)
