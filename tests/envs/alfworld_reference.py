"""Plays games in the official engine and writes down what it says; run by a Python that has textworld and alfworld.

Reads one JSON object a line, `{"game": {pddl_domain, grammar, pddl_problem, ...}, "commands": [...]}`, and answers
each with `{"turns": [{observation, admissible, won}, ...], "step_seconds": s, "reset_seconds": s}`; the first turn is
the beginning of the game.
"""

import json
import sys
import time

from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from textworld.core import EnvInfos
from textworld.envs.pddl import PddlEnv


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # the planner's chatter
    for line in sys.stdin:
        request = json.loads(line)
        env = AlfredDemangler(PddlEnv(EnvInfos(admissible_commands=True, won=True)))
        env.load(request["game"])
        begun = time.process_time()
        turns = [spoken(env.reset())]
        reset = time.process_time() - begun
        begun = time.process_time()
        turns += [spoken(env.step(command)[0]) for command in request["commands"]]
        step = time.process_time() - begun
        answers.write(json.dumps({"turns": turns, "step_seconds": step, "reset_seconds": reset}) + "\n")
        answers.flush()


def spoken(state) -> dict:
    return {"observation": state.feedback, "admissible": state["admissible_commands"], "won": bool(state["won"])}


if __name__ == "__main__":
    main()
