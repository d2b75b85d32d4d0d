"""Horizon curves: do errors compound? Open-loop replay of logged actions on held-out episodes (the review's question).

An episode is imagined from its start with the actions that were really taken, and compared with what really
happened, step by step: the sampled latent against the true one, the rank of the true answer among other logged ones,
the decoded text, reward and end against the true ones. For our model, for noise in its place and for each rival. Each
episode is replayed by a member that held its task out, without its own record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from worldline.adwm.ensemble import Ensemble, Member
from worldline.adwm.episodes import encoded, read_episode
from worldline.adwm.fitting.calibration import area_under_curve, calibration_error, calibration_slope
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.rivals.latent import RIVALS
from worldline.adwm.world_model_env import ImaginedEnvironment, ImaginedWorld
from worldline.types import Trajectory, derive_seed

Array = npt.NDArray[np.float64]
POOL = 256
"""Other logged answers that the true one is ranked among."""
BATCH = 64


@dataclass(frozen=True)
class Curve:
    """Means over the episodes that reach each step; `steps[i]` of them reach step i + 1."""

    steps: list[int]
    latent_error: list[float]
    recall_1: list[float]
    recall_10: list[float]
    text_match: list[float]
    reward_auc: float
    termination_auc: float
    """Over all steps: single steps have too few ends to tell."""
    early_termination_auc: float
    late_termination_auc: float
    """The first half of the horizon, and the second."""
    termination_slope: float
    """Calibration of the hazard: 1 is right; below, its mean error."""
    termination_error: float
    value_error: float
    """Root mean square, over the policies of the log, of predicted minus real mean return."""


def horizon_curves(
    ensemble: Ensemble,
    names: Sequence[str] = ("adwm", "adwm-noise", "wm-ar", "wm-joint", "wm-knn"),
    *,
    episodes: int = 64,
    seed: int = 0,
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Curve]:
    """The curve of each way of imagining that the ensemble can do, on up to `episodes` held-out episodes."""
    numbers = _chosen(ensemble, episodes, seed)
    if not numbers:
        return {}
    able = [
        name
        for name in names
        if IMAGINATION_PRESETS[name].dynamics not in RIVALS or ensemble.members[0].rivals is not None
    ]
    curves: dict[str, Curve] = {}
    for name in able:
        watch(len(curves), len(able))
        curves[name] = _curve(ensemble, IMAGINATION_PRESETS[name], numbers, seed)
    return curves


def _chosen(ensemble: Ensemble, episodes: int, seed: int) -> list[tuple[int, int]]:
    """(member, episode) pairs: each episode with the member that held it out."""
    holders = {task: index for index, member in enumerate(ensemble.members) for task in member.held_out}
    held_out = [
        (holders[episode.task_id], number)
        for number, episode in enumerate(ensemble.episodes)
        if episode.task_id in holders
    ]
    order = np.random.default_rng(derive_seed(seed, "horizon")).permutation(len(held_out))
    return [held_out[at] for at in order[:episodes]]


def _curve(ensemble: Ensemble, config: ImaginationConfig, chosen: Sequence[tuple[int, int]], seed: int) -> Curve:
    rows: list[dict[str, Array]] = []
    for start in range(0, len(chosen), BATCH):
        rows += _replayed(ensemble, config, chosen[start : start + BATCH], seed)
    longest = max(len(row["error"]) for row in rows)

    def mean(name: str) -> list[float]:
        return [float(np.mean([row[name][t] for row in rows if len(row[name]) > t])) for t in range(longest)]

    def pooled(name: str, of: slice | None = None) -> Array:
        return np.concatenate([row[name] if of is None else row[name][of] for row in rows])

    half = max(1, ensemble.facts.horizon // 2)
    early, late = slice(None, half), slice(half, None)
    return Curve(
        steps=[sum(len(row["error"]) > t for row in rows) for t in range(longest)],
        latent_error=mean("error"),
        recall_1=mean("first"),
        recall_10=mean("tenth"),
        text_match=mean("text"),
        reward_auc=area_under_curve(pooled("paid"), pooled("reward") > 0),
        termination_auc=area_under_curve(pooled("hazard"), pooled("ended")),
        early_termination_auc=area_under_curve(pooled("hazard", early), pooled("ended", early)),
        late_termination_auc=area_under_curve(pooled("hazard", late), pooled("ended", late)),
        termination_slope=calibration_slope(pooled("hazard"), pooled("ended")),
        termination_error=calibration_error(pooled("hazard"), pooled("ended")),
        value_error=_value_error(rows, [ensemble.episodes[number] for _, number in chosen]),
    )


def _value_error(rows: Sequence[dict[str, Array]], episodes: Sequence[Trajectory]) -> float:
    """An episode's predicted return is what each step pays, weighed by the chance that it was reached."""
    apart: dict[str, list[float]] = {}
    for row, episode in zip(rows, episodes, strict=True):
        reached = np.concatenate([[1.0], np.cumprod(1 - row["hazard"])[:-1]])
        apart.setdefault(episode.policy, []).append(float((reached * row["paid"]).sum()) - episode.episode_return)
    return float(np.sqrt(np.mean([np.mean(errors) ** 2 for errors in apart.values()])))


def _replayed(
    ensemble: Ensemble, config: ImaginationConfig, chosen: Sequence[tuple[int, int]], seed: int
) -> list[dict[str, Array]]:
    """Imagine each episode with its logged actions; what was measured at each step."""
    world = ImaginedWorld(ensemble, config)
    episodes = [ensemble.episodes[number] for _, number in chosen]
    running = [_started(world, member, number, seed) for member, number in chosen]
    truth = [_true_latents(ensemble.members[member], ensemble.episodes[number]) for member, number in chosen]
    rows: list[dict[str, list[float]]] = [{} for _ in chosen]
    for step in range(max(len(episode) for episode in episodes)):
        alive = [at for at, episode in enumerate(episodes) if len(episode) > step]
        for at in alive:
            running[at].over = False
            running[at].begin(episodes[at].steps[step].action)
        for at in alive:
            running[at].step(episodes[at].steps[step].action)
            measured = _measured(running[at], episodes[at], step, truth[at][step], ensemble)
            for name, value in measured.items():
                rows[at].setdefault(name, []).append(value)
    return [{name: np.array(values) for name, values in row.items()} for row in rows]


def _started(world: ImaginedWorld, member: int, number: int, seed: int) -> ImaginedEnvironment:
    environment, episode = world.make(), world.ensemble.episodes[number]
    environment.reset(seed=derive_seed(seed, number), task=episode.task_id)
    environment.member, environment.own = member, number
    environment.start_as(episode)
    return environment


@torch.no_grad()
def _true_latents(member: Member, episode: Trajectory) -> Tensor:
    """z of what really followed each step, (T, latent)."""
    seen = read_episode(member.model, episode, 0).observations[1:]
    return encoded(member.model.encode_observation, seen, member.model.device)


def _measured(
    environment: ImaginedEnvironment, episode: Trajectory, step: int, true: Tensor, ensemble: Ensemble
) -> dict[str, float]:
    sampled, answered = environment.sampled, environment.answer
    assert sampled is not None
    assert answered is not None
    pool = ensemble.members[environment.member].decoder.latents
    rng = np.random.default_rng(derive_seed(environment.seed, "pool", step))
    others = pool[torch.from_numpy(rng.integers(0, len(pool), POOL))].to(sampled.device)
    apart = (sampled - true).pow(2).mean()
    # an equal latent is the same text at another step: no mistake
    rank = int((((others - sampled).pow(2).mean(-1) < apart - 1e-6) & ((others - true).pow(2).mean(-1) > 1e-6)).sum())
    return {
        "error": float(apart),
        "first": float(rank == 0),
        "tenth": float(rank < 10),
        "text": float(answered.text == episode.next_observations[step]),
        "hazard": answered.hazard,
        "paid": answered.mean_reward,
        "ended": float(episode.terminated and step + 1 == len(episode)),
        "reward": episode.steps[step].reward,
    }
