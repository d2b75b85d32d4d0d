"""How far the ranking depends on guidance: the candidates imagined again with other weights w and alpha (ADWM eq. 9).

They perceive the imagined world as they did for `adwm`, with the same luck. alpha pulls through the policy's own
gradient: its rows are left out where a candidate has none to give (API agents, scripted ones, `--interface text`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from worldline.evaluate.candidates import Candidate
from worldline.evaluate.imagined import WorldModelEstimators
from worldline.ope.agreement import spearman

PLAIN = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0))
GUIDED = ((0.0, 0.1), (0.5, 0.1))
"""(w, alpha): classifier-free guidance alone, and with guidance towards what the policy is sure of."""


def sensitivity(world: WorldModelEstimators, candidates: Sequence[Candidate], starts: int) -> list[dict[str, object]]:
    """Per setting the values, once from every few starts, and their rank correlation with the unguided ones."""
    episodes = world.case.trajectories
    chosen = episodes[:: max(1, len(episodes) // starts)][:starts]
    values: dict[tuple[float, float], list[float]] = {setting: [] for setting in (*PLAIN, *GUIDED)}
    able = [candidate for candidate in candidates if candidate.load is not None]
    for done, candidate in enumerate(able, start=1):
        assert candidate.load is not None
        channel = world.connected(candidate.load(), world.ensemble)
        for w, alpha in (*PLAIN, *(GUIDED if channel.guide is not None else ())):
            manner = replace(world.manners["adwm"], w=w, alpha=alpha)
            played = world.play(world.ensemble, channel, candidate.epsilon, manner, starts=chosen, rollouts=1)
            values[w, alpha].append(float(played.values.mean()))
        world.case.watch("sensitivity to guidance", done, len(able))
    plain = np.array(values[PLAIN[0]])
    return [
        {"w": w, "alpha": alpha, "values": found, "spearman_with_plain": spearman(np.array(found), plain)}
        for (w, alpha), found in values.items()
        if able and len(found) == len(able)
    ]
