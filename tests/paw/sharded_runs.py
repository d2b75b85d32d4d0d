"""Run by two processes of `accelerate launch`: a whole run, the first half of one, the second half of another's."""

import json
import os
import shutil
import sys
from pathlib import Path

from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    recipe = json.loads((folder / "recipe.json").read_text())
    for out, updates, resume in (("two", 2, False), ("one-two", 4, True), ("two", 4, True)):
        train(TrainConfig.model_validate(recipe | {"out": folder / out, "updates": updates, "resume": resume}))
        if updates == 2 and os.environ["RANK"] == "0":
            shutil.copytree(folder / "two", folder / "two-one")
