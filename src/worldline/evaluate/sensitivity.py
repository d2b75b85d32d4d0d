"""How much a ranking depends on guidance: the candidates' values again under other guidance settings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.evaluate.candidates import Candidate
from worldline.evaluate.imagination import Imagination
from worldline.ope.agreement import spearman

PLAIN = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0))
GUIDED = ((0.0, 0.1), (0.5, 0.1))
"""(w, alpha): classifier-free guidance alone, and with guidance towards what the policy is sure of."""


def sensitivity(imagination: Imagination, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]:
    """Per setting the values, once from every few starts, and their rank correlation with the unguided ones."""
    episodes = imagination.case.trajectories
    chosen = episodes[:: max(1, len(episodes) // starts)][:starts]
    values: dict[tuple[float, float], list[float]] = {setting: [] for setting in (*PLAIN, *GUIDED)}
    able = [candidate for candidate in candidates if candidate.load is not None]
    for done, candidate in enumerate(able, start=1):
        assert candidate.load is not None
        connection = imagination.connected(candidate.load(), imagination.ensemble)
        for w, alpha in (*PLAIN, *(GUIDED if connection.guide is not None else ())):
            guidance = replace(IMAGINATION_PRESETS["adwm"], w=w, alpha=alpha)
            world = ImaginedWorld(imagination.ensemble, guidance, connection.guide, chosen)
            played = imagination.play(world, connection.policy, candidate.epsilon, rollouts=1)
            values[w, alpha].append(float(played.values.mean()))
        imagination.case.watch("sensitivity to guidance", done, len(able))
    plain = np.array(values[PLAIN[0]])
    return [
        {"w": w, "alpha": alpha, "values": setting, "spearman_with_plain": spearman(np.array(setting), plain)}
        for (w, alpha), setting in values.items()
        if able and len(setting) == len(able)
    ]
