"""Does PaW help where its paper says so? GRPO with and without it, on the official games of ALFWorld or WebShop.

python experiments/paw_alfworld.py clone   alfworld --data GAMES --model SMOLLM2 --out OUT   # the two starts
python experiments/paw_alfworld.py tune    alfworld ... --jobs 6                             # the learning rate
python experiments/paw_alfworld.py run     alfworld ... --jobs 6 --minutes 20                # all arms, all seeds
python experiments/paw_alfworld.py figures alfworld --out OUT --result RESULT.json           # table, RESULT.svg

Every stage goes on where it stopped. What is decided lies in OUT/ENV/results, one small JSON for each clone and each
finished run; with that folder alone the experiment goes on elsewhere. A run that did not end is resumed from its
checkpoint in OUT/ENV/work, or begun anew where that is gone; the clones are made again, from the same seed.
`--scale tiny` rehearses all of it on a CPU, with any small model.

**Fixed before the first judged run**, in the constants below:
- Starts: the model, cloned from the walkthroughs of the first N train games (WebShop: the expert's first N wins of at
  most six steps), once with `--target action`, once with `--target both`. N is searched for each: from `first` it
  doubles while the clone's success is below `window` and halves while it is above, then goes to the geometric mean; the
  first inside is taken. A clone is judged at the temperature of the rollouts, which are what it learns from.
- Rate: of `rates`, the one with the highest success (mean of its evaluations) of plain GRPO, in one run of
  ten updates from the start, with a seed of its own; of those within `close` of the best, the smallest. It serves
  every arm of the start. These are the evaluations after five and ten updates; runs of the first start have that of
  the start itself too, the same for all rates.
- Order: GRPO and GRPO + PaW with all seeds from both starts; then GiGPO, ECHO, lambda = 1 and rho = 1. The first
  question is `success` of GRPO + PaW against GRPO over both starts; all else is a further question.
- Evaluations: every game four times (WebShop: 70 test goals). The judged mean of three evaluations of 560 episodes has
  a standard error of at most sqrt(.25 / 1,680) = .012 where their errors are independent, and of .015 where they
  correlate by .25: the draws are the same ones, the policies are five updates apart. Of 280 episodes: .017 and .021.
- WebShop is sized to what a page costs, 200 to 700 tokens: episodes of at most eight steps, which a purchase with three
  options needs and one detour, and updates of 8 x 8 episodes.
- A run whose weights were no numbers any more counts as success 0 from there on.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paw_stages import Given, Plan, Stages

from worldline.types import InputError, WorldlineError

TUNE_SEEDS = {"action": 101, "both": 102}
STARTS = tuple(TUNE_SEEDS)
SEEDS = 6
PAW = {"wm": "paw", "world.alpha": 0.75, "world.rho": 0.2, "world.coefficient": "adaptive"}
ARMS: dict[str, dict[str, Any]] = {
    "grpo": {"algo": "grpo", "wm": "off"},
    "grpo+paw": {"algo": "grpo", **PAW},
    "gigpo": {"algo": "gigpo", "wm": "off"},
    "gigpo+paw": {"algo": "gigpo", **PAW},
    "grpo+echo": {"algo": "grpo", "wm": "echo", "world.echo": 0.1},
    "grpo+paw lambda=1": {"algo": "grpo", **PAW, "world.coefficient": "constant", "world.start": 1.0},
    "grpo+paw rho=1": {"algo": "grpo", **PAW, "world.rho": 1.0},
}
PHASES = (("grpo", "grpo+paw"), ("gigpo", "gigpo+paw"), ("grpo+echo",), ("grpo+paw lambda=1", "grpo+paw rho=1"))

CLONE = {"epochs": 4, "learning-rate": 1e-4, "batch-tokens": 2048, "checkpoints": 1, "prompt": "transcript", "seed": 0}
TRAIN: dict[str, Any] = {
    "updates": 30,
    "groups": 16,
    "group-size": 8,
    "preset": "textbook",
    "precision": "bf16",
    "credit.penalty": "format",
    "update.kl": 0.01,
    "update.warmup": 3,
    "update.schedule": "constant",
    "update.epochs": 1,
    "rollout.temperature": 1.0,
    "rollout.dtype": "bfloat16",
    "evaluation.every": 5,
    "evaluation.first": 20,
    "evaluation.repeats": 4,
    "evaluation.temperature": 0.4,
}
TUNING = {"updates": 10, "evaluation.first": 5}
ALFWORLD = Plan(
    walkthroughs=True,
    chosen_on="valid_seen",
    judged_on="valid_seen",
    steps=30,
    tokens=24,
    context=2048,
    clone=CLONE,
    train={**TRAIN, "update.mini-batch": 256, "evaluation.episodes": 560, "evaluation.held-out": 280},
    arms=ARMS,
    phases=PHASES,
    rates=(3e-6, 1e-5),
    tuning=TUNING,
    close=0.015,
    tune_seeds=TUNE_SEEDS,
    window=(0.1, 0.2),
    first=50,
    episodes=560,
)
WEBSHOP = replace(
    ALFWORLD,
    walkthroughs=False,
    longest=6,
    chosen_on="dev",
    judged_on="test",
    steps=8,
    tokens=64,
    context=4096,
    train={**TRAIN, "groups": 8, "update.mini-batch": 64, "evaluation.episodes": 280, "evaluation.held-out": 80},
    rates=(1e-5, 3e-5),
    window=(0.1, 0.3),
    first=200,
    episodes=280,
)
PLANS = {"alfworld": ALFWORLD, "webshop": WEBSHOP}
TINY: dict[str, Any] = {
    "updates": 2,
    "groups": 2,
    "group-size": 2,
    "precision": "fp32",
    "rollout.dtype": "float32",
    "evaluation.every": 1,
    "evaluation.first": 0,
    "evaluation.episodes": 8,
    "evaluation.held-out": 4,
}


def tiny(plan: Plan) -> Plan:
    """The same stages, as small as they get: two games, two updates, any success will do for a start."""
    small: dict[str, Any] = {
        "steps": 3,
        "tokens": 4,
        "episodes": 2,
        "dtype": "float32",
        "window": (0.0, 1.0),
        "first": 2,
    }
    return replace(plan, train={**plan.train, **TINY}, tuning={"updates": 1}, **small)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage", choices=("clone", "tune", "run", "figures"))
    parser.add_argument("env", choices=sorted(PLANS))
    parser.add_argument("--data", type=Path, help="folder of the games, or of the shop's items")
    parser.add_argument("--model", default="", help="the pretrained model: a folder of weights")
    parser.add_argument("--out", type=Path, required=True, help="folder of results and work")
    parser.add_argument("--result", type=Path, help="figures: the JSON to write; the curves get its name with .svg")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each arm: 0, 1, ...")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="run: only these")
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS, help="clone, tune, run: only these")
    parser.add_argument("--jobs", type=int, default=1, help="runs beside each other")
    parser.add_argument("--minutes", type=float, help="tune, run: stop after so many; default: when all is done")
    parser.add_argument("--batch-size", type=int, default=280, help="episodes played at once")
    parser.add_argument("--cache-gib", type=float, default=8.0, help="memory of a run for cached keys and values")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="tokens in one forward pass of an update")
    parser.add_argument(
        "--rollout-tokens", type=int, default=262144, help="tokens of prompts that are answered at once"
    )
    parser.add_argument("--scale", choices=("full", "tiny"), default="full", help="tiny: a rehearsal")
    given = parser.parse_args(words)
    try:
        if given.stage != "figures" and not given.model:
            raise InputError("missing --model: the folder of the pretrained model")
        if given.stage == "figures" and not given.result:
            raise InputError("missing --result: the JSON file to write")
        plan = tiny(PLANS[given.env]) if given.scale == "tiny" else PLANS[given.env]
        named = {name: value for name, value in vars(given).items() if name not in ("stage", "scale")}
        stages = Stages(plan, Given(**named))
        stage = {"clone": stages.clone, "tune": stages.tune, "run": stages.run, "figures": stages.figures}
        return 0 if stage[given.stage]() else 3  # 3: there is more to do
    except WorldlineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
