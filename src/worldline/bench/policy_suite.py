"""Who plays in `bench rank` and `bench ablate`: three policies that log, ten that are judged, for each environment.

Small language models of one cloning run at different checkpoints, writing freely or choosing, with less history or at
another temperature; and experts with faults. Where all ten are scripted there are language models besides: some rows of
`bench ablate` need a policy's weights.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldline.policies import PolicyConfig, PolicySource, PolicySpec
from worldline.policies.faulty_expert import Faults
from worldline.sft import SftConfig, sft
from worldline.types import InputError

_WRITE, _CHOOSE = PolicyConfig(cache_gib=0.25), PolicyConfig(cache_gib=0.25, mode="choose")
_PAGE = _CHOOSE.model_copy(update={"history": 0})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of the cloning run by its number (0 the first, -1 the last), and how its policy reads and acts."""

    number: int
    epsilon: float = 0.0
    settings: PolicyConfig = _WRITE

    def source(self, checkpoints: Sequence[Path]) -> PolicySource:
        return PolicySpec(f"hf:{checkpoints[self.number]}", self.settings, self.epsilon)


@dataclass(frozen=True)
class PolicySuite:
    """The policies of one environment, by name."""

    loggers: Mapping[str, Checkpoint | PolicySource]
    targets: Mapping[str, Checkpoint | PolicySource]
    language_models: Mapping[str, Checkpoint] = field(default_factory=dict)
    """Language models that `bench rank` does not judge."""
    cloning: dict[str, Any] = field(default_factory=dict)
    """Settings of the cloning run; none: no policy here is a clone."""
    split: str = "unseen"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def policies(self) -> dict[str, Checkpoint | PolicySource]:
        return {**self.loggers, **self.targets, **self.language_models}

    @property
    def with_gradients(self) -> list[str]:
        """The language models that act for themselves at every step: guidance can ask them for a gradient."""
        judged = {**self.targets, **self.language_models}
        return [name for name, policy in judged.items() if isinstance(policy, Checkpoint) and not policy.epsilon]


SUITES: dict[str, PolicySuite] = {
    "household": PolicySuite(
        cloning={"episodes": 3000, "checkpoints": 6},
        options={"level": "small"},
        loggers={
            "logger-late": Checkpoint(4, 0.2, _CHOOSE),
            "logger-early": Checkpoint(3, 0.2),
            "logger-scripted": Faults(chance=0.6),
        },
        targets={
            "checkpoint 2, choosing": Checkpoint(1, settings=_CHOOSE),
            "checkpoint 3, choosing": Checkpoint(2, settings=_CHOOSE),
            "checkpoint 4, choosing": Checkpoint(3, settings=_CHOOSE),
            "checkpoint 6, choosing": Checkpoint(5, settings=_CHOOSE),
            "checkpoint 6, writing": Checkpoint(5),
            "checkpoint 6, writing, cold": Checkpoint(5, settings=PolicyConfig(cache_gib=0.25, temperature=0.5)),
            "checkpoint 6, choosing, half by chance": Checkpoint(5, 0.5, _CHOOSE),
            "expert, a little by chance": Faults(chance=0.2),
            "expert that dawdles": Faults(again=0.5, chance=0.2),
            "expert that forgets": Faults(memory=2, chance=0.1),
        },
    ),
    "shop": PolicySuite(
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
        cloning={"episodes": 1000, "checkpoints": 6, "context": 2048, "vocabulary": 2048},
        language_models={
            "checkpoint 1": Checkpoint(0, settings=_PAGE),
            "checkpoint 2": Checkpoint(1, settings=_PAGE),
            "checkpoint 6": Checkpoint(5, settings=_PAGE),
            # sums of many tokens' log-probabilities lie far apart: it takes this much heat to change a choice
            "checkpoint 6, hot": Checkpoint(5, settings=_PAGE.model_copy(update={"temperature": 20.0})),
            "checkpoint 6, remembers a page": Checkpoint(5, settings=_PAGE.model_copy(update={"history": 1})),
        },
    ),
    "searchqa": PolicySuite(
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
        cloning={"episodes": 4000, "epochs": 2, "checkpoints": 6, "vocabulary": 2048},
        language_models={
            "checkpoint 1, choosing": Checkpoint(0, settings=_CHOOSE),
            "checkpoint 2, choosing": Checkpoint(1, settings=_CHOOSE),
            "checkpoint 3, choosing": Checkpoint(2, settings=_CHOOSE),
            "checkpoint 6, choosing": Checkpoint(5, settings=_CHOOSE),
            "checkpoint 6, choosing, hot": Checkpoint(5, settings=_CHOOSE.model_copy(update={"temperature": 2.0})),
            "checkpoint 6, writing": Checkpoint(5),
        },
    ),
}


def clone_checkpoints(suite: PolicySuite, env: str, folder: Path, seed: int) -> list[Path]:
    """The checkpoints of the cloning run in `folder`, made if they are not there."""
    if not suite.cloning:
        return []
    config = SftConfig(source=env, out=folder, options=suite.options, seed=seed, overwrite=True, **suite.cloning)
    path = folder / "config.json"
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if any(earlier.get(name, value) != value for name, value in config.model_dump(include=set(suite.cloning)).items()):
        raise InputError(f"{folder}: was cloned with other settings; give another --out")
    if not (folder / "model").is_dir():
        sft(config)
    return sorted((folder / "checkpoints").iterdir())
