"""The native engine against the official one: same games, same commands, the same words.

Needs the official package (textworld and alfworld with its planner), in this interpreter or in the one that
WORLDLINE_ALFWORLD_PYTHON names. It is slow (ten steps a second, seconds to load a game), so only a few games are played
here; WORLDLINE_ALFWORLD_GAMES=60 plays the sixty of the documented comparison.
"""

import importlib.util
import json
import lzma
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worldline.envs.alfworld import AlfworldWorld
from worldline.envs.household.engine import NOTHING_HAPPENS, GameEngine

DRIVER = Path(__file__).with_name("alfworld_reference.py")
NONSENSE = ("", "dance", "go to the moon", "take everything", "GO TO FRIDGE 1", "use", "open fridge 99", " look ")


@pytest.fixture(scope="module")
def reference() -> str:
    python = os.environ.get("WORLDLINE_ALFWORLD_PYTHON")
    if python:
        return python
    if all(importlib.util.find_spec(name) for name in ("textworld", "alfworld", "fast_downward")):
        return sys.executable
    pytest.skip(
        "the official alfworld package is not installed, and WORLDLINE_ALFWORLD_PYTHON names no Python that has it"
    )


def sampled_tasks(world: AlfworldWorld, count: int) -> list[str]:
    """Spread over the splits there are."""
    tasks = []
    for split, share in (("valid_seen", count // 2), ("train", count - count // 2)):
        total = world.num_tasks(split)
        tasks += [world.get_task(split, (2 * number + 1) * total // (2 * share)) for number in range(share)]
    return tasks


def script(engine: GameEngine, rng: random.Random, length: int, manner: int) -> list[str]:
    """Commands to play: the solution with looking about (manner 0), at random (1), or handling things at length (2)."""
    state, commands = engine.game.initial.copy(), []
    solution = list(engine.game.walkthrough) if manner == 0 else []
    while len(commands) < length:
        allowed = engine.options(state)
        if rng.random() < 0.08:
            commands.append(rng.choice(NONSENSE))
            continue
        if solution and rng.random() < 0.5:
            command = solution.pop(0)
        else:
            command = rng.choices(allowed.commands, [LIKING[manner].get(c.split()[0], 1) for c in allowed.commands])[0]
        commands.append(command)
        if command in allowed.actions:
            engine.perform(state, allowed.actions[command])
    return commands


LIKING: tuple[dict[str, float], ...] = (
    dict.fromkeys(("go", "open", "close", "take", "move", "use", "heat", "cool", "clean", "slice"), 0),
    {},
    {"go": 0.1, "open": 6, "close": 0.5, "take": 4, "move": 4, "slice": 4, "look": 4, "examine": 1, "help": 0.1},
)


def play(engine: GameEngine, commands: list[str]) -> list[dict[str, object]]:
    state = engine.game.initial.copy()
    turns = [{"observation": engine.introduction, "admissible": list(engine.options(state).commands), "won": False}]
    for command in commands:
        action = engine.options(state).actions.get(command.strip())
        answer = engine.perform(state, action) if action else NOTHING_HAPPENS
        turns.append(
            {"observation": answer, "admissible": list(engine.options(state).commands), "won": engine.won(state)}
        )
    return turns


@pytest.mark.data
def test_same_words_same_commands_same_wins(reference: str, shared_data: Path) -> None:
    folder = shared_data / "alfworld"
    world = AlfworldWorld(folder)
    domain, grammar = ((folder / name).read_text() for name in ("alfred.pddl", "alfred.twl2"))
    problems = {}
    tasks = sampled_tasks(world, int(os.environ.get("WORLDLINE_ALFWORLD_GAMES", "4")))
    for split in ("valid_seen", "train"):
        problems |= raw_problems(folder, split, {task for task in tasks if task.startswith(split)})
    rng = random.Random(0)
    steps = wins = 0
    native = official = 0.0
    driver = subprocess.Popen([reference, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert driver.stdin
    assert driver.stdout
    for number, task in enumerate(tasks):
        engine = world.engine(task)
        commands = script(engine, rng, 55, manner=number % 3)
        game = {"pddl_domain": domain, "pddl_problem": problems[task]["pddl_problem"]}
        game["grammar"] = grammar.replace("UNKNOWN GOAL", problems[task]["task_desc"])
        driver.stdin.write(json.dumps({"game": game, "commands": commands}) + "\n")
        driver.stdin.flush()
        answer = json.loads(driver.stdout.readline())
        fresh = GameEngine(engine.game)
        begun = time.process_time()
        turns = play(fresh, commands)
        native += time.process_time() - begun
        official += answer["step_seconds"]
        for turn, (ours, theirs) in enumerate(zip(turns, answer["turns"], strict=True)):
            assert ours == theirs, f"{task}, after {commands[:turn]}"
        steps += len(commands)
        wins += turns[-1]["won"] is True
        speed = f"{steps / native:.0f} against {steps / official:.1f} steps/s"
        print(f"{number + 1} games, {steps} steps, {wins} wins, 0 differences, {speed}", file=sys.stderr)
    driver.stdin.close()
    assert driver.wait(timeout=60) == 0
    assert wins


def raw_problems(folder: Path, split: str, tasks: set[str]) -> dict[str, dict[str, str]]:
    """The games as they are in the file, read without the code under test."""
    games = {}
    with lzma.open(folder / f"games_{split}.jsonl.xz", "rt") as lines:
        for line in lines:
            game = json.loads(line)
            task = f"{split}/{game['task']}/{game['trial']}"
            if task in tasks:
                games[task] = game
    return games
