"""What an agent loses when it perceives an imagined world through soft tokens and not in words.

python experiments/interfaces.py MODEL OUT [--small]: a pretrained MODEL is cloned from household's expert; each
checkpoint is an agent, valued in a world model of three scripted loggers through each interface, and then in truth.
OUT/interfaces.json is written after every value; a run that was stopped goes on. --small: to try it on a CPU.
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from worldline import files
from worldline.adwm.soft_tokens.adapter import AdapterConfig
from worldline.adwm.soft_tokens.connect import PolicyInterfaceConfig, connect
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.bench.experiment import Experiment, ExperimentConfig
from worldline.bench.policy_suite import Checkpoint, PolicySuite
from worldline.ope.agreement import spearman
from worldline.policies import PolicyConfig
from worldline.policies.faulty_expert import Faults

INTERFACES = ("text", "soft", "distilled")
SEEDS = 2
LOGGERS = {
    "logger-chance": Faults(chance=0.6),
    "logger-careful": Faults(chance=0.2, again=0.2),
    "logger-forgets": Faults(memory=2, chance=0.3),
}
CHANNEL = PolicyInterfaceConfig(adapter=AdapterConfig(batch=64))


def main(model: str, out: Path, small: bool) -> None:
    gpu = {"dtype": "bfloat16", "batch_tokens": 1 << 20, "cache_gib": 12.0} if torch.cuda.is_available() else {}
    checkpoints, settings = 6, PolicyConfig(max_new_tokens=16, **gpu)
    suite = PolicySuite(
        loggers=LOGGERS,
        targets={f"checkpoint {n + 1}": Checkpoint(n, settings=settings) for n in range(checkpoints)},
        cloning={
            "model": model,
            "episodes": 40 if small else 800,
            "epochs": 1.0,
            "learning_rate": 1e-4,
            "checkpoints": checkpoints,
            "batch_tokens": 2048 if small else 8192,
        },
        split="unseen",
        options={"level": "small"},
    )
    config = ExperimentConfig(tasks=8 if small else 171, truth=1 if small else 2, members=1, horizon=0, jobs=1)
    experiment = Experiment(config, "household", suite, out)
    path = out / "interfaces.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.is_file() else []
    done = {(row["seed"], row["interface"], row["agent"]) for row in rows}
    for seed in range(SEEDS):
        ensemble = experiment.fit(seed)
        for name in suite.targets:
            true = experiment.value(name)
            for interface in INTERFACES:
                if (seed, interface, name) in done:
                    continue
                policy = experiment.source(name).load(experiment.world)
                channel = connect(policy, ensemble, interface, CHANNEL, folder=out / "adapters", seed=seed)
                value = float(imagine(ImaginedWorld(ensemble), channel.policy, rollouts=1, seed=seed).values.mean())
                rows.append(
                    {"seed": seed, "interface": interface, "agent": name, "imagined": value, "true": true}
                    | {"adapter": channel.figures}
                )
                print(rows[-1], file=sys.stderr, flush=True)
                _keep(path, rows, model)


def _keep(path: Path, rows: list[dict[str, Any]], model: str) -> None:
    """The rows, and how each interface ranks the agents."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    content = {
        "command": "python experiments/interfaces.py MODEL OUT",
        "model": Path(model).name,
        "date": datetime.date.today().isoformat(),
        "device": device,
        "agreement": [_agreement(rows, seed, interface) for seed in range(SEEDS) for interface in INTERFACES],
        "rows": rows,
    }
    files.write_json(path, content)


def _agreement(rows: list[dict[str, Any]], seed: int, interface: str) -> dict[str, Any]:
    mine = [row for row in rows if row["seed"] == seed and row["interface"] == interface]
    imagined, true = np.array([row["imagined"] for row in mine]), np.array([row["true"] for row in mine])
    return {
        "seed": seed,
        "interface": interface,
        "agents": len(mine),
        "spearman": spearman(imagined, true) if len(mine) > 1 else None,
        "mae": float(np.abs(imagined - true).mean()) if mine else None,
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "--small" in sys.argv[3:])
