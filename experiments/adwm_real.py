"""Does the world model rank real agents on real benchmarks? Clones of a language model on ALFWorld, WebShop and others.

python experiments/adwm_real.py run     alfworld --data GAMES --model SMOLLM2 --out OUT --jobs 16 --minutes 12
python experiments/adwm_real.py timing  ...                                   # imagining against playing, alone
python experiments/adwm_real.py figures alfworld --out OUT --result RESULT.json       # one JSON, the tables

Three early clones log; a dozen other agents are judged from that log alone and then played in truth. Every part (a
clone, a log, a truth, a fit, the scores of a policy, a policy imagined in a world model, an evaluation) is a process of
its own; several run beside each other. A part that is done has a JSON in OUT/ENV/results and is not done again; a part
that fails costs what rests on it only. `--scale tiny` rehearses all of it on a CPU, with any small model.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import run_queue
from adwm_agents import Agent, Clone, Plan, settings
from adwm_parts import Given, Parts
from adwm_readers import Reader
from adwm_scientists import Scientist

from worldline import files
from worldline.policies import PolicySpec
from worldline.types import InputError, WorldlineError

CLONES = {
    "early-25": Clone(25, seed=31),
    "early-50": Clone(50, seed=32),
    "early-100": Clone(100, seed=33),
    "few-35": Clone(35, seed=41),
    "few-70": Clone(70, seed=42),
    "lora": Clone(300, seed=43, lora=16, rate=5e-4),
    "full": Clone(2500, seed=44, epochs=1.5, checkpoints=6),
}
LOGGERS = {name: Agent(name, dtype="float32") for name in ("early-25", "early-50", "early-100")}
TARGETS = {
    "few-35": Agent("few-35"),
    "few-70-cold": Agent("few-70", temperature=0.4),
    "few-70-choosing": Agent("few-70", mode="choose"),
    "lora": Agent("lora"),
    "full-1": Agent("full", 1),
    "full-2": Agent("full", 2),
    "full-4": Agent("full", 4),
    "full-4-forgetful": Agent("full", 4, history=3),
    "full-6": Agent("full"),
    "full-6-cold": Agent("full", temperature=0.4),
    "full-6-greedy": Agent("full", temperature=0.0),
    "full-6@0.4": Agent("full", epsilon=0.4),
}
ALFWORLD = Plan(
    loggers=LOGGERS,
    targets=TARGETS,
    swept="full-6",
    clones=CLONES,
    repeats={"early-50": 2},
    split="valid_seen",
    tasks=140,
    truth=4,
    options={"max_steps": 30},
)
CHOOSING = {name: replace(agent, mode="choose") for name, agent in LOGGERS.items()}
WEBSHOP = replace(
    ALFWORLD,
    clones={
        **CLONES,
        "lora": Clone(150, seed=43, epochs=3.0, lora=16, rate=5e-4),
        "full": Clone(300, seed=44, epochs=1.5, checkpoints=6),
    },
    loggers=CHOOSING,
    targets={
        "few-35": Agent("few-35", mode="choose"),
        "few-70-cold": Agent("few-70", temperature=0.4, mode="choose"),
        "few-70-hot": Agent("few-70", temperature=3.0, mode="choose"),
        "few-70-writing": Agent("few-70"),
        "lora": Agent("lora", mode="choose"),
        "full-1": Agent("full", 1, mode="choose"),
        "full-3": Agent("full", 3, mode="choose"),
        "full-6": Agent("full", mode="choose"),
        "full-6-forgetful": Agent("full", history=2, mode="choose"),
        "full-6-greedy": Agent("full", temperature=0.0, mode="choose"),
        "full-6-writing": Agent("full"),
        "full-6@0.4": Agent("full", epsilon=0.4, mode="choose"),
        "full-6@0.8": Agent("full", epsilon=0.8, mode="choose"),
    },
    walkthroughs=False,
    split="test",
    truth=2,
    seeds=2,
    rollouts=2,
    tokens=64,
    context=4096,
    options={"max_steps": 8},
)
"""A page has some 370 tokens: 15 steps of them do not fit into the context. The expert wins a third in 8. Most agents
choose among the page's actions: it takes a fifth of the time of writing them."""
SEARCHQA = Plan(
    loggers={
        "beginner": Reader(0.2, (0.7, 0.3, 0.1)),
        "doubtful": Reader(0.3, (0.5, 0.5, 0.5)),
        "hasty beginner": Reader(0.1, (0.3, 0.1, 0.0)),
    },
    targets={
        "guesser": Reader(0.0, (0.3, 0.1, 0.0)),
        "pupil": Reader(0.2),
        "student": Reader(0.4),
        "graduate": Reader(0.6),
        "scholar": Reader(0.8),
        "master": Reader(1.0),
        "thorough scholar": Reader(0.8, (1.0, 0.9, 0.8)),
        "thorough master": Reader(1.0, (1.0, 0.9, 0.8)),
        "hasty scholar": Reader(0.8, (0.2, 0.1, 0.0)),
        "remembers": Reader(0.9, (0.8, 0.3, 0.1), memory=0.4),
        "remembers, hasty": Reader(0.9, (0.1, 0.1, 0.0), memory=0.4),
    },
    swept="thorough master",
    repeats={"beginner": 2},
    split="train",
    tasks=140,
)
SCIENCEWORLD = Plan(
    loggers={
        "novice": Scientist(0.3, idle=1, ahead=1, rash=0.1),
        "idle novice": Scientist(0.4, idle=2, ahead=0.5, rash=0.05),
        "rash novice": Scientist(0.5, idle=1, ahead=1, rash=0.5),
    },
    targets={
        "beginner": Scientist(0.2),
        "pupil": Scientist(0.4),
        "student": Scientist(0.6),
        "graduate": Scientist(0.8),
        "master": Scientist(1.0),
        "idle beginner": Scientist(0.25, ahead=0),
        "idle student": Scientist(0.6, ahead=0),
        "hasty graduate": Scientist(0.7, idle=0),
        "rash pupil": Scientist(0.4, rash=1),
        "rash graduate": Scientist(0.8, idle=0, ahead=0, rash=1),
        "rash master": Scientist(0.95, idle=0, ahead=0, rash=1),
    },
    swept="master",
    repeats={"novice": 2},
    split="test",
    tasks=140,
    lists=False,
    options={
        "max_steps": 30,
        "tasks": (
            "chemistry-mix-paint-*", "find-*", "identify-life-stages-2", "lifespan-*", "power-component*",
            "test-conductivity-of-unknown-substances", "use-thermometer",
        ),
    },
)  # packed lines read better  # fmt: skip
"""The tasks whose solutions fit into 30 steps. Lists of actions, up to a thousand a step, are not read."""
PLANS = {"alfworld": ALFWORLD, "webshop": WEBSHOP, "searchqa": SEARCHQA, "scienceworld": SCIENCEWORLD}


def tiny(plan: Plan) -> Plan:
    """The same parts, as small as they get: a few tasks, clones that can do nothing, experts so that some are won."""
    small = replace(plan, tasks=6, truth=1, seeds=1, rollouts=1, cell=2, epsilons=(0.0, 0.4),
                    rivals=("adwm", "adwm-noise"), fit={"epochs": 1})  # fmt: skip
    if not plan.clones:
        return small
    kept = ("early-25", "few-70", "lora", "full")
    clones = {name: replace(plan.clones[name], walkthroughs=3, epochs=1.0) for name in kept}
    others = [name for name in ("few-70-choosing", "few-70-writing", "lora", "full-1") if name in plan.targets]
    language_models = (*plan.loggers, *others, plan.swept)
    agents = {name: replace(plan.player(name), dtype="float32") for name in language_models}  # type: ignore[type-var]  # agents, which are dataclasses
    return replace(
        small,
        clones=clones,
        loggers={"early-25": agents["early-25"], "expert": PolicySpec("expert", epsilon=0.6)},
        repeats={"expert": 3},
        targets={name: agents[name] for name in language_models if name not in plan.loggers}
        | {"expert@0.2": PolicySpec("expert", epsilon=0.2)},
        options={**plan.options, "max_steps": 20},
    )


def run(parts: Parts, words: Sequence[str], jobs: int, minutes: float | None, only: Sequence[str]) -> bool:
    """Whether all parts are done, after what the time allowed."""
    claim(parts)
    wanted = {name: after for name, after in parts.names.items() if not only or any(map(partial(fnmatch, name), only))}
    missing: list[str] = []
    for name, after in wanted.items():  # an evaluation looks again, once it has what was missing
        if not parts.done(name) or (name.startswith("evaluate.") and set(after) & set(missing)):
            missing.append(name)
    if jobs == 0:
        for name in missing:
            print(name, file=sys.stderr, flush=True)
            parts.do(name)
        return True
    tasks = [
        run_queue.Task(
            name,
            (sys.executable, str(Path(__file__).resolve()), "part", *words, "--part", name),
            parts.work / "logs" / f"{name}.log",
            partial(_ended, parts.path(name)),
            **{"after" if name.startswith("evaluate.") else "needs": wanted[name]},
        )
        for name in missing
    ]
    ended = run_queue.play(tasks, jobs, None if minutes is None else 60 * minutes, late=True)
    print(f"{len(wanted) - len(missing) + len(ended.done)} of {len(wanted)} parts done, {len(ended.failed)} failed")
    return len(ended.done) == len(missing)


def claim(parts: Parts) -> None:
    """Write down the plan; InputError where the folder was made with another."""
    path = parts.path("plan")
    if path.exists() and parts.result("plan") != settings(parts.plan):
        raise InputError(f"{path}: was made with other settings; give another --out")
    files.write_json(path, settings(parts.plan))


def _ended(path: Path, code: int, seconds: float) -> bool:
    return code == 0 and path.exists()


def main(words: Sequence[str] | None = None) -> int:
    given_words = list(sys.argv[1:] if words is None else words)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage", choices=("run", "timing", "figures", "part"))
    parser.add_argument("env", choices=sorted(PLANS))
    parser.add_argument("--data", type=Path, help="folder of the games, or of the shop's items")
    parser.add_argument("--model", default="", help="the pretrained model: a folder of weights")
    parser.add_argument("--out", type=Path, required=True, help="folder of results and work")
    parser.add_argument("--result", type=Path, help="figures: the JSON to write")
    parser.add_argument("--jobs", type=int, default=1, help="parts beside each other; 0: one by one in this process")
    parser.add_argument("--minutes", type=float, help="stop after so many; default: when all is done")
    parser.add_argument("--only", nargs="+", default=[], help="run: only these parts, such as clone.* imagine.*.0")
    parser.add_argument("--part", default="", help="part: its name; `run` calls it so")
    parser.add_argument("--batch-size", type=int, default=280, help="episodes played at once")
    parser.add_argument("--cache-gib", type=float, default=3.0, help="memory of a process for cached keys and values")
    parser.add_argument("--batch-tokens", type=int, default=32768, help="tokens in one forward pass")
    parser.add_argument("--device", default="auto", help="of the models")
    parser.add_argument("--scale", choices=("full", "tiny"), default="full", help="tiny: a rehearsal")
    parser.add_argument("--tasks", type=int, help="only so many tasks, where the plan takes too long")
    given = parser.parse_args(given_words)
    if given.tasks is not None and given.tasks < 1:
        parser.error(f"--tasks {given.tasks}: at least 1")
    plan = tiny(PLANS[given.env]) if given.scale == "tiny" else PLANS[given.env]
    plan = plan if given.tasks is None else replace(plan, tasks=given.tasks)
    shared = ("env", "out", "data", "model", "batch_size", "cache_gib", "batch_tokens", "device")
    parts = Parts(plan, Given(**{name: getattr(given, name) for name in shared}))
    try:
        if given.stage == "part":
            parts.do(given.part)
            return 0
        if given.stage == "figures":
            return _figures(parts, given.result)
        if given.stage == "timing":
            parts.do("timing")
            return 0
        return 0 if run(parts, part_words(vars(given)), given.jobs, given.minutes, given.only) else 3
    except WorldlineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def part_words(given: dict[str, Any]) -> list[str]:
    """The command line of a part: that of the run, less what concerns the run alone."""
    alone = ("stage", "env", "result", "jobs", "minutes", "only", "part")
    flags = {f"--{name.replace('_', '-')}": str(v) for name, v in given.items() if name not in alone and v is not None}
    return [given["env"], *(word for flag in flags.items() for word in flag)]


def _figures(parts: Parts, result: Path | None) -> int:
    from adwm_tables import figures

    if result is None:
        raise InputError("missing --result: the JSON file to write")
    print(figures(parts, result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
