"""The cache of imagined values: a folder for each policy, world model, log and way of imagining, there whole or not."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

import worldline
from worldline import files, store
from worldline.adwm.kernel_env import Support
from worldline.adwm.value import Imagined
from worldline.types import InputError

VALUES = "values.json"


class ImaginedValues(BaseModel):
    """`Imagined` on disk; its episodes lie beside it, where they are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: list[float]
    spread: float
    near: dict[str, int]
    unsupported: int
    lost: float
    failure: str


def cached_imagination(
    make: Callable[[], Imagined],
    decisive: Mapping[str, object],
    folder: Path,
    *,
    with_episodes: bool,
) -> Imagined:
    """What `make` gives, or gave before when all that decides it was the same."""
    content = json.dumps([worldline.__version__, decisive], sort_keys=True).encode()
    entry = folder / f"imagined-{hashlib.blake2b(content, digest_size=12).hexdigest()}"
    if not (entry / VALUES).is_file():
        _write(entry, make(), with_episodes=with_episodes)
    return _read(entry, with_episodes=with_episodes)


def _write(entry: Path, imagined: Imagined, *, with_episodes: bool) -> None:
    support = imagined.support
    content = ImaginedValues(
        values=imagined.values.tolist(),
        spread=imagined.spread,
        near=dict(support.near),
        unsupported=support.unsupported,
        lost=imagined.lost,
        failure=imagined.failure,
    )
    with files.replacing(entry) as partial:
        files.write_json(partial / VALUES, content.model_dump())
        if with_episodes:
            with store.StoreWriter(partial) as writer:
                for trajectory in imagined.trajectories:
                    writer.append(trajectory)


def _read(entry: Path, *, with_episodes: bool) -> Imagined:
    try:
        kept = ImaginedValues.model_validate_json((entry / VALUES).read_bytes())
    except ValidationError:
        raise InputError(f"{entry / VALUES}: not readable: delete {entry}") from None
    support = Support(Counter(kept.near), kept.unsupported)
    episodes = list(store.read(entry)) if with_episodes else []
    return Imagined(np.array(kept.values), kept.spread, support, episodes, kept.lost, kept.failure)
