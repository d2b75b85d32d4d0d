"""What each of two launched processes does: a whole run, the first half of one, the second half of another's."""

import json
import os
import shutil
from pathlib import Path

from accelerate.state import AcceleratorState

from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train


def one_of_two(rank: int, environment: dict[str, str], folder: Path) -> None:
    """In a process of its own, with the environment of a launcher: accelerate is as if it had just been imported."""
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
    AcceleratorState._reset_state(reset_partial_state=True)
    recipe = json.loads((folder / "recipe.json").read_text())
    for out, updates, resume in (("two", 2, False), ("one-two", 4, True), ("two", 4, True)):
        train(TrainConfig.model_validate(recipe | {"out": folder / out, "updates": updates, "resume": resume}))
        if updates == 2 and rank == 0:
            shutil.copytree(folder / "two", folder / "two-one")
