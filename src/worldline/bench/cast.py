"""Who plays in `bench rank` and `bench ablate`: three policies that log, ten that are judged, for each world.

Small language models of one cloning run at different stages, writing freely or choosing, with less history or at
another temperature; and scripted agents that go wrong in their own ways (they forget, they dawdle, they fumble).
Where all ten are scripted there are language models besides: some rows of `bench ablate` need a policy's weights.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline import policies, store
from worldline.policies import PolicyConfig, mix
from worldline.rollout import Episode, Rollout
from worldline.sft import SftConfig, sft
from worldline.types import Decision, InputError, Policy, Trajectory, Turn, World, derive_seed, uniform

_VERB = re.compile(r"[\s\[>]")
Make = Callable[[World, Sequence[Path]], Policy]
"""A policy from the world and the checkpoints of the cloning run."""


@dataclass(frozen=True)
class Faults:
    """An expert that goes wrong: chances per step, and how many past exchanges it remembers (all: None)."""

    chance: float = 0.0
    """Takes a random admissible action."""
    again: float = 0.0
    """Repeats its last action."""
    haste: float = 0.0
    hasty: str = ""
    """Takes the first admissible action that begins so, if there is one."""
    fumble: float = 0.0
    """Takes another admissible action of the same verb."""
    memory: int | None = None

    def __call__(self, world: World, ladder: Sequence[Path]) -> Policy:
        return FaultyExpert(world, self)


class FaultyExpert:
    """The world's expert with faults. Its probabilities are exact."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world, self._faults = world, faults
        self.name = f"expert with {faults}"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._drawn(self._options(turn), turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        with np.errstate(divide="ignore"):
            return [
                np.log([options.get(action, 0.0) for action in asked])
                for turn, asked in zip(turns, actions, strict=True)
                for options in [self._options(turn)]
            ]

    def _drawn(self, options: dict[str, float], turn: Turn) -> Decision:
        actions, chances = list(options), np.cumsum(list(options.values()))
        at = min(int(np.searchsorted(chances, uniform(turn.seed, "fault"), side="right")), len(actions) - 1)
        return Decision(action=actions[at], response=actions[at], logprob=float(np.log(options[actions[at]])))

    def _options(self, turn: Turn) -> dict[str, float]:
        """The probability of everything it might do, the faults in the order they are listed."""
        faults, listed = self._faults, tuple(turn.admissible or ())
        found: dict[str, float] = defaultdict(float)
        left = 1.0

        def spend(share: float, actions: Sequence[str]) -> None:
            nonlocal left
            if actions and share:
                for action in actions:
                    found[action] += left * share / len(actions)
                left *= 1 - share

        spend(faults.chance, listed)
        spend(faults.again, [turn.history[-1].action] if turn.history else [])
        spend(faults.haste, [action for action in listed if action.startswith(faults.hasty)][:1])
        own = self._own(turn)
        spend(faults.fumble, [a for a in listed if a != own and _VERB.split(a)[0] == _VERB.split(own)[0]])
        found[own] += left
        return {action: p for action, p in found.items() if p > 0}

    def _own(self, turn: Turn) -> str:
        memory = self._faults.memory
        if memory is not None and len(turn.history) > memory:
            # the first observation says what there is, and is not forgotten
            turn = replace(turn, history=(turn.history[0], *turn.history[len(turn.history) - memory :]))
        return self._world.expert(turn)


# all of them are alive at once: little memory each for what they have read
_WRITE, _CHOOSE = PolicyConfig(cache_gib=0.25), PolicyConfig(cache_gib=0.25, mode="choose")
_PAGE = _CHOOSE.model_copy(update={"history": 0})


@dataclass(frozen=True)
class Clone:
    """A rung of the cloning run (0 the first, -1 the last), and how it is asked."""

    rung: int
    epsilon: float = 0.0
    settings: PolicyConfig = _WRITE

    def __call__(self, world: World, ladder: Sequence[Path]) -> Policy:
        return mix(policies.load(f"hf:{ladder[self.rung]}", world, self.settings), self.epsilon)


@dataclass(frozen=True)
class Cast:
    """The players of one world."""

    loggers: dict[str, Make]
    targets: dict[str, Make]
    further: dict[str, Make] = field(default_factory=dict)
    """Players that `bench rank` does not judge."""
    clone: dict[str, Any] = field(default_factory=dict)
    """Settings of the cloning run; none: nobody here is a clone."""
    split: str = "unseen"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def language_models(self) -> list[str]:
        """Who can be asked for a gradient: the language models that act for themselves at every step."""
        everyone = self.targets | self.further
        return [name for name, make in everyone.items() if isinstance(make, Clone) and not make.epsilon]


CASTS: dict[str, Cast] = {
    "household": Cast(
        clone={"episodes": 3000, "checkpoints": 6},
        options={"level": "small"},
        loggers={
            "logger-late": Clone(4, 0.2, _CHOOSE),
            "logger-early": Clone(3, 0.2),
            "logger-scripted": Faults(chance=0.6),
        },
        targets={
            "rung 2, choosing": Clone(1, settings=_CHOOSE),
            "rung 3, choosing": Clone(2, settings=_CHOOSE),
            "rung 4, choosing": Clone(3, settings=_CHOOSE),
            "rung 6, choosing": Clone(5, settings=_CHOOSE),
            "rung 6, writing": Clone(5),
            "rung 6, writing, cold": Clone(5, settings=PolicyConfig(cache_gib=0.25, temperature=0.5)),
            "rung 6, choosing, half by chance": Clone(5, 0.5, _CHOOSE),
            "expert, a little by chance": Faults(chance=0.2),
            "expert that dawdles": Faults(again=0.5, chance=0.2),
            "expert that forgets": Faults(memory=2, chance=0.1),
        },
    ),
    "shop": Cast(
        split="test",
        loggers={
            "logger-chance": Faults(chance=0.5),
            "logger-fumbles": Faults(fumble=0.4),
            "logger-hasty": Faults(haste=0.5, hasty="click[buy now]", chance=0.2),
        },
        targets={
            "expert": Faults(),
            "a little by chance": Faults(chance=0.25),
            "mostly by chance": Faults(chance=0.75),
            "chance": Faults(chance=1.0),
            "buys at once": Faults(haste=1.0, hasty="click[buy now]"),
            "buys at once, fumbles": Faults(haste=1.0, hasty="click[buy now]", fumble=0.7),
            "fumbles": Faults(fumble=0.25),
            "fumbles a lot": Faults(fumble=0.7),
            "dawdles": Faults(again=0.5, chance=0.3),
            "reads on": Faults(haste=0.6, hasty="click[next", chance=0.3),
        },
        # long pages, and article numbers that so small a model cannot copy: it chooses, and sees the present page only
        clone={"episodes": 1000, "checkpoints": 6, "context": 2048, "vocabulary": 2048},
        further={
            "rung 1": Clone(0, settings=_PAGE),
            "rung 2": Clone(1, settings=_PAGE),
            "rung 6": Clone(5, settings=_PAGE),
            # sums of many tokens' log-probabilities lie far apart: it takes this much heat to change a choice
            "rung 6, hot": Clone(5, settings=_PAGE.model_copy(update={"temperature": 20.0})),
            "rung 6, remembers a page": Clone(5, settings=_PAGE.model_copy(update={"history": 1})),
        },
    ),
    "searchqa": Cast(
        split="test",
        options={"reward": "f1"},
        loggers={
            "logger-chance": Faults(chance=0.4),
            "logger-fumbles": Faults(fumble=0.4),
            "logger-hasty": Faults(haste=0.3, hasty="<answer>", fumble=0.2),
        },
        targets={
            "expert": Faults(),
            "a little by chance": Faults(chance=0.2),
            "half by chance": Faults(chance=0.6),
            "chance": Faults(chance=1.0),
            "fumbles": Faults(fumble=0.2),
            "fumbles a lot": Faults(fumble=0.7),
            "answers at once": Faults(haste=0.7, hasty="<answer>"),
            "answers soon": Faults(haste=0.4, hasty="<answer>"),
            "dawdles": Faults(again=0.5),
            "dawdles and fumbles": Faults(again=0.3, fumble=0.4),
        },
        clone={"episodes": 4000, "epochs": 2, "checkpoints": 6, "vocabulary": 2048},
        further={
            "rung 1, choosing": Clone(0, settings=_CHOOSE),
            "rung 2, choosing": Clone(1, settings=_CHOOSE),
            "rung 3, choosing": Clone(2, settings=_CHOOSE),
            "rung 6, choosing": Clone(5, settings=_CHOOSE),
            "rung 6, choosing, hot": Clone(5, settings=_CHOOSE.model_copy(update={"temperature": 2.0})),
            "rung 6, writing": Clone(5),
        },
    ),
}


def ladder(cast: Cast, env: str, out: Path, seed: int) -> list[Path]:
    """The checkpoints of the cloning run, made if they are not there."""
    folder, begun = out / "clone", out / "clone" / "config.json"
    if not cast.clone:
        return []
    config = SftConfig(source=env, out=folder, options=cast.options, seed=seed, overwrite=True, **cast.clone)
    known = json.loads(begun.read_text(encoding="utf-8")) if begun.is_file() else {}
    if any(known.get(name, value) != value for name, value in config.model_dump(include=set(cast.clone)).items()):
        raise InputError(f"{folder}: was cloned with other settings; give another --out")
    if not (folder / "model").is_dir():
        sft(config)
    return sorted((folder / "checkpoints").iterdir())


def played(
    world: World, policy: Policy, name: str, cast: Cast, folder: Path, *, tasks: int, times: int, seed: int
) -> list[Trajectory]:
    """Each of the first `tasks` tasks `times` times; kept in a store, and only what is missing there is played."""
    wanted = [
        Episode(
            f"{name}-{again}-{index:05d}",
            world.get_task(cast.split, index),
            cast.split,
            derive_seed(seed, index, again),
        )
        for again in range(times)
        for index in range(tasks)
    ]
    kept = {t.id: t for t in store.read([folder])} if any(folder.glob("*.parquet")) else {}
    missing = [episode for episode in wanted if episode.id not in kept]
    if missing:
        with store.StoreWriter(folder) as writer:
            for trajectory in Rollout(world, policy, batch_size=128, policy_name=name).play(missing):
                writer.append(trajectory)
                kept[trajectory.id] = trajectory
    return [kept[episode.id] for episode in wanted]
