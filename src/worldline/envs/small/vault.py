"""`vault`: find a code of three digits from 1 to 4 by what each try has in place and out of place (Mastermind).

The task fixes the code. Six tries, written freely: any sentence with three digits is one. An open vault earns 1, less
0.1 for every try before.
"""

import functools
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

Code = tuple[int, ...]
CODES: tuple[Code, ...] = tuple(itertools.product(range(1, 5), repeat=3))
TRIES, COST = 6, 0.1


class VaultConfig(SmallConfig):
    """The vault."""


class Feedback(NamedTuple):
    """How a try compares with the code."""

    in_place: int
    elsewhere: int


@functools.cache
def compare(code: Code, attempt: Code) -> Feedback:
    in_place = sum(a == b for a, b in zip(code, attempt, strict=True))
    return Feedback(in_place, (Counter(code) & Counter(attempt)).total() - in_place)


class VaultGame:
    """One code."""

    goal = f"Open the vault: find its three digits, each from 1 to 4, in {TRIES} tries."

    def __init__(self, code: Code) -> None:
        self._code, self._tries = code, 0

    def introduction(self) -> str:
        return "The vault has three dials. It tells how many digits are in place, and how many belong elsewhere."

    def admissible(self) -> None:
        return None

    def act(self, action: str) -> Reaction:
        self._tries += 1
        attempt = parsed(action)
        if attempt is None:
            return self._closed("The dials want three digits from 1 to 4.", valid=False)
        if attempt == self._code:
            return Reaction("The vault opens.", 1 - COST * (self._tries - 1), over=True, won=True)
        answer = compare(self._code, attempt)
        return self._closed(f"{answer.in_place} in place, {answer.elsewhere} elsewhere.")

    def _closed(self, text: str, *, valid: bool = True) -> Reaction:
        if self._tries < TRIES:
            return Reaction(text, valid=valid)
        return Reaction(f"{text} An alarm rings: it is over.", over=True, valid=valid)


def parsed(action: str) -> Code | None:
    digits = tuple(int(digit) for digit in re.findall(r"\d", action))
    return digits if digits in CODES else None


def sentence(code: Code) -> str:
    return "Set the dials to " + " ".join(map(str, code)) + "."


class VaultWorld(SmallWorld):
    """The vault."""

    name = "vault"
    max_steps = TRIES

    def __init__(self, config: VaultConfig | None = None) -> None:
        self.config: VaultConfig = config or VaultConfig()

    def game(self, task: random.Random, draw: random.Random) -> VaultGame:
        return VaultGame(task.choice(CODES))

    def menu(self, turn: Turn) -> Sequence[str]:
        return [sentence(code) for code in CODES]

    @property
    def scripts(self) -> Mapping[str, Rule]:
        def first(agrees: Callable[[Feedback, Feedback], bool]) -> Rule:
            return lambda turn: sentence(consistent(attempts_of(turn), agrees)[0])

        return {
            "splits most": lambda turn: sentence(_splitting(attempts_of(turn))),
            "consistent": first(Feedback.__eq__),
            "any consistent": lambda turn: dict.fromkeys(map(sentence, consistent(attempts_of(turn))), 1.0),
            "counts digits only": first(lambda a, b: sum(a) == sum(b)),
            "counts places only": first(lambda a, b: a.in_place == b.in_place),
            "forgets": lambda turn: sentence(consistent(attempts_of(turn)[-1:])[0]),
            "mixes up": first(lambda a, b: (a.in_place, a.elsewhere) == (b.elsewhere, b.in_place)),
            "in order": lambda turn: sentence(CODES[(21 * turn.step) % len(CODES)]),
            "random": lambda turn: dict.fromkeys(map(sentence, CODES), 1.0),
        }


Attempts = tuple[tuple[Code, Feedback], ...]


def attempts_of(turn: Turn) -> Attempts:
    """Every try with its answer."""
    texts = [*(exchange.observation for exchange in turn.history[1:]), turn.observation]
    pairs = []
    for exchange, text in zip(turn.history, texts, strict=False):
        code, match = parsed(exchange.action), re.search(r"(\d) in place, (\d) elsewhere", text)
        if code is not None and match:
            pairs.append((code, Feedback(int(match[1]), int(match[2]))))
    return tuple(pairs)


def consistent(answers: Attempts, agrees: Callable[[Feedback, Feedback], bool] = Feedback.__eq__) -> tuple[Code, ...]:
    """The codes that would have been answered so and were not tried; all codes where there is none."""
    tried = {code for code, _ in answers}
    left = [c for c in CODES if c not in tried and all(agrees(compare(c, code), answer) for code, answer in answers)]
    return tuple(left) or CODES


@functools.lru_cache(100_000)
def _splitting(answers: Attempts) -> Code:
    """The try with the most different answers over the codes that are left, one of these where it is as good."""
    left = consistent(answers)
    return max(CODES, key=lambda attempt: (len({compare(code, attempt) for code in left}), attempt in left))
