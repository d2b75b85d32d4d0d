"""An equal-length log by integer arithmetic, and what SCOPE-RL 0.2.1 says about it (scope_rl_reference.json).

Run as a script in an environment of its own (Python 3.9, `pip install --no-deps scope-rl==0.2.1`, then numpy<2, scipy,
pandas, scikit-learn, gym) it writes that file. d3rlpy and torch, which the estimators name but do not use, are stubbed.
"""

import json
import sys
import types
from pathlib import Path

import numpy as np

EPISODES, STEPS, ACTIONS, GAMMA = 40, 7, 4, 0.95
REFERENCE = Path(__file__).with_suffix(".json")


def table(salt, *shape):  # the old Python of the reference environment reads this file too
    """Numbers in [0, 1) that are the same everywhere: multiplicative hashing of their index."""
    count = int(np.prod(shape))
    return np.array([((i + 1 + 7919 * salt) * 2654435761 % 2**32) / 2**32 for i in range(count)]).reshape(shape)


def inputs():
    """Behaviour and target distributions, actions, rewards and Q of every step."""
    rows = EPISODES * STEPS
    behaviour = 0.2 + table(1, rows, ACTIONS)
    target = 0.2 + table(2, rows, ACTIONS)
    return {
        "behaviour": behaviour / behaviour.sum(axis=1, keepdims=True),
        "target": target / target.sum(axis=1, keepdims=True),
        "action": (table(3, rows) * ACTIONS).astype(int),
        "reward": table(4, rows),
        "q": 2 * table(5, rows, ACTIONS) - 0.5,
    }


def main() -> None:
    import importlib
    import importlib.util

    root = Path(importlib.util.find_spec("scope_rl").submodule_search_locations[0])
    for name in ("d3rlpy", "d3rlpy.preprocessing"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["d3rlpy.preprocessing"].ActionScaler = object
    for name, folder in (("scope_rl.ope", root / "ope"), ("scope_rl.ope.discrete", root / "ope" / "discrete")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    estimators = importlib.import_module("scope_rl.ope.discrete.basic_estimators")
    data = inputs()
    rows = np.arange(len(data["action"]))
    given = {
        "step_per_trajectory": STEPS,
        "action": data["action"],
        "reward": data["reward"],
        "pscore": data["behaviour"][rows, data["action"]],
        "evaluation_policy_action_dist": data["target"],
        "state_action_value_prediction": data["q"],
        "gamma": GAMMA,
    }
    names = {
        "is": "TrajectoryWiseImportanceSampling",
        "pdis": "PerDecisionImportanceSampling",
        "wis": "SelfNormalizedTIS",
        "pdwis": "SelfNormalizedPDIS",
        "dr": "DoublyRobust",
        "wdr": "SelfNormalizedDR",
    }
    values = {name: float(getattr(estimators, kind)().estimate_policy_value(**given)) for name, kind in names.items()}
    REFERENCE.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    main()
