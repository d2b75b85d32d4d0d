"""`worldline bench imagine`: what imagining costs, batched and one by one, by 10 and by 50 diffusion steps, and, with a
language model as the policy, through soft tokens with continuation guidance on.

Batching and fewer diffusion steps make the networks faster; decoding to text, which `adwm` does at every step and the
paper does not, is Python that costs the same for each episode. So both are measured: the world model's own step (draw
the noise, sample, go on with the history, ask the heads), and the whole step with its text."""

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from worldline import envs, policies, store
from worldline.adwm.diffusion import sample
from worldline.adwm.dynamics import BOUND
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.soft_tokens.adapter import AdapterConfig
from worldline.adwm.soft_tokens.connect import PolicyInterfaceConfig, connect
from worldline.adwm.world_model_env import Guide, ImaginedWorld
from worldline.bench import Figures
from worldline.config import option
from worldline.policies import PolicyConfig
from worldline.policies.mixing import RandomPolicy
from worldline.rollout import Episode, Rollout, plan
from worldline.types import Decision, Policy, Trajectory, Turn, WorldlineError, derive_seed, uniform

_EPSILONS = (0.2, 0.5, 0.8)
_ROUNDS = 15


class ImagineBenchConfig(PolicyConfig):
    """A world model is fitted, then random play is imagined in it: together and one by one, by DDIM-10 and by DDPM-50.
    With --policy, all epsilons and rollouts of that language model too, in one batch, guided, through soft tokens.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench imagine",
        "worldline bench imagine --policy hf:SmolLM2-135M --prompt transcript --preset paper --log logs/",
    )

    log: tuple[Path, ...] = option((), help="logs to fit on; default: household episodes played on the spot")
    episodes: int = option(128, help="episodes to play where no log is given", ge=8)
    preset: Literal["small", "base", "paper"] = option("small", help="size of the world model")
    epochs: int | None = option(None, help="epochs of the fit; default: the preset's", ge=1)
    batch: int = option(256, help="imagined episodes side by side in the comparison", ge=2)
    alone: int = option(4, help="episodes imagined one by one, to compare with", ge=1)
    compare: bool = option(True, help="measure batched against one by one, and 10 steps against 50")
    policy: str = option("", help="hf:PATH: also measure this language model through soft tokens, guided")
    epsilons: tuple[float, ...] = option((0.0, 0.2, 0.4, 0.6, 0.8), help="shares of chance mixed into it")
    rollouts: int = option(256, help="imagined episodes of each epsilon", ge=1)
    steps: int = option(12, help="longest imagined episode", ge=1)
    diffusion_steps: int = option(10, help="reverse steps: 10 is DDIM, 50 with noise is DDPM", ge=1)
    redraw: int = option(5, help="guidance asks for the next action at every so many diffusion steps", ge=1)
    adapter_batch: int = option(64, help="batch of the adapter's training (the paper's is 8)", ge=2)
    seed: int = option(0, help="decides every random draw")


Settings = ImagineBenchConfig


def run(settings: ImagineBenchConfig) -> Figures:
    """Fit, compare, and play the language model if there is one."""
    episodes = list(store.read(settings.log)) if settings.log else _played(settings)
    started = time.perf_counter()
    fitting = FitSettings(
        preset=settings.preset,
        members=1,
        epochs=settings.epochs,
        rivals=False,
        seed=settings.seed,
        device=settings.device,
    )
    ensemble = fit_ensemble(episodes, fitting).ensemble
    figures = {"fit_episodes": float(len(episodes)), "fit_seconds": time.perf_counter() - started}
    rows: list[dict[str, Any]] = []
    if settings.compare:
        figures |= _compared(ensemble, settings, rows)
    if settings.policy:
        figures |= _through_soft_tokens(ensemble, settings, rows)
    return Figures(figures, rows)


def _played(settings: ImagineBenchConfig) -> list[Trajectory]:
    world = envs.load("household")
    share = -(-settings.episodes // len(_EPSILONS))
    episodes: list[Trajectory] = []
    for epsilon in _EPSILONS:
        expert = policies.mix(policies.load("expert", world, settings), epsilon)
        planned = plan(world, "train", share, seed=settings.seed, run=f"eps{epsilon:g}")
        episodes += Rollout(world, expert, epsilon=epsilon).play(planned)
    return episodes[: settings.episodes]


def _compared(ensemble: Ensemble, settings: ImagineBenchConfig, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds per imagined step of random play, and of the sampler alone."""
    fast, slow = IMAGINATION_PRESETS["adwm"], replace(IMAGINATION_PRESETS["adwm"], steps=50, eta=1.0)

    def each(name: str, imagination: ImaginationConfig, batch: int, count: int) -> float:
        planned = _planned(ensemble, count, settings.seed)
        steps, seconds = _play(ensemble, RandomPolicy(), planned, imagination, batch, settings)
        rows.append(_row(name, batch, steps, seconds))
        return seconds / steps

    each("warm-up", fast, settings.batch, 8)
    together = each("DDIM-10", fast, settings.batch, settings.batch)
    alone = each("DDIM-10", fast, 1, settings.alone)
    thorough = each("DDPM-50", slow, settings.batch, settings.batch)
    # turn about, and by medians over rounds: how fast a machine is changes from one second to the next
    rounds = [
        [_latent_step(ensemble, *which) for which in ((settings.batch, fast), (settings.batch, slow), (1, fast))]
        for _ in range(_ROUNDS)
    ]
    return {
        "batched_over_one_by_one": statistics.median(settings.batch * one / step for step, _, one in rounds),
        "ddim10_over_ddpm50": statistics.median(fifty / step for step, fifty, _ in rounds),
        "milliseconds_per_step": 1e3 * statistics.median(step for step, _, _ in rounds) / settings.batch,
        "batched_over_one_by_one_with_text": alone / together,
        "ddim10_over_ddpm50_with_text": thorough / together,
        "milliseconds_per_step_with_text": 1e3 * together,
    }


def _through_soft_tokens(
    ensemble: Ensemble, settings: ImagineBenchConfig, rows: list[dict[str, Any]]
) -> dict[str, float]:
    """The paper's way of imagining, with the fast sampler: guided by actions and by the policy, read as soft tokens."""
    policy = policies.load(settings.policy, None, settings)
    config = PolicyInterfaceConfig(adapter=AdapterConfig(batch=settings.adapter_batch), redraw=settings.redraw)
    started = time.perf_counter()
    connection = connect(policy, ensemble, "soft", config, seed=settings.seed)
    adapted = time.perf_counter() - started
    eta = 1.0 if settings.diffusion_steps == ensemble.members[0].model.architecture.diffusion_steps else 0.0
    imagination = replace(IMAGINATION_PRESETS["adwm-paper"], steps=settings.diffusion_steps, eta=eta)
    sweep = Sweep(connection.policy)
    planned = [
        episode
        for epsilon in settings.epsilons
        for episode in sweep.episodes(_planned(ensemble, settings.rollouts, settings.seed), epsilon, settings.steps)
    ]
    steps, seconds = _play(ensemble, sweep, planned, imagination, len(planned), settings, connection.guide)
    name = f"{settings.policy.rpartition('/')[2]}, soft, guided, {settings.diffusion_steps} diffusion steps"
    rows.append(_row(name, len(planned), steps, seconds))
    return {
        "adapter_seconds": adapted,
        "adapter_top1": connection.figures["top1"],
        "adapter_top1_in_batch": connection.figures["top1_in_batch"],
        "soft_guided_rollouts": float(len(planned)),
        "soft_guided_steps": float(steps),
        "soft_guided_seconds": seconds,
    }


class Sweep:
    """One policy at several epsilons in one batch: the seed of a turn says which one it is played at."""

    def __init__(self, policy: Policy) -> None:
        self.name, self._policy, self._chance = policy.name, policy, RandomPolicy()
        self._epsilon: dict[int, float] = {}

    def episodes(self, planned: Sequence[Episode], epsilon: float, steps: int) -> list[Episode]:
        """`planned` as episodes of their own at `epsilon`."""
        made = [
            replace(episode, id=f"{episode.id}@{epsilon:g}", seed=derive_seed(episode.seed, f"{epsilon:g}"))
            for episode in planned
        ]
        self._epsilon |= {derive_seed(e.seed, step): epsilon for e, step in itertools.product(made, range(steps))}
        return made

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        flips = [uniform(turn.seed, "epsilon") < self._epsilon[turn.seed] for turn in turns]
        own = iter(self._policy.act([turn for turn, flip in zip(turns, flips, strict=True) if not flip]))
        return [self._chance.act([turn])[0] if flip else next(own) for turn, flip in zip(turns, flips, strict=True)]


def _row(name: str, batch: int, steps: int, seconds: float) -> dict[str, Any]:
    return {"imagined": name, "batch": batch, "steps": steps, "seconds": seconds, "per_second": steps / seconds}


def _planned(ensemble: Ensemble, count: int, seed: int) -> list[Episode]:
    return plan(ImaginedWorld(ensemble), "log", count, seed=seed, run="imagined")


def _play(
    ensemble: Ensemble,
    policy: Policy,
    planned: Sequence[Episode],
    imagination: ImaginationConfig,
    batch: int,
    settings: ImagineBenchConfig,
    guide: Guide | None = None,
) -> tuple[int, float]:
    """Imagined steps, and the seconds they took."""
    world = ImaginedWorld(ensemble, imagination, guide)
    player = Rollout(world, policy, batch_size=batch, max_steps=settings.steps)
    started = time.perf_counter()
    steps = sum(len(episode) for episode in player.play(planned))
    if not steps:
        raise WorldlineError(f"no step was imagined: every episode failed, the first one {player.failed[0]}")
    return steps, time.perf_counter() - started


@torch.no_grad()
def _latent_step(ensemble: Ensemble, batch: int, imagination: ImaginationConfig, steps: int = 12) -> float:
    """Seconds of one step of `batch` episodes in latents alone: the median of `steps` that follow one another."""
    model = ensemble.members[0].model
    action, latent = model.null_action(batch), torch.randn(batch, model.architecture.latent, device=model.device)
    goals = torch.zeros_like(action) if model.architecture.text else None
    states = model.advance(model.step_tokens(latent, action, goals), [None] * batch)
    taken = []
    for _ in range(steps):
        started = time.perf_counter()
        noise = torch.randn(1 + imagination.steps * (imagination.eta > 0), *latent.shape, device=model.device)
        injected = noise[1:] if imagination.eta > 0 else None
        predict = model.conditional(states.h, action)
        latent = sample(
            predict, noise[0], model.abar, steps=imagination.steps, eta=imagination.eta, noise=injected, bound=BOUND
        )
        states = model.advance(model.step_tokens(latent, action, goals), states.split())
        model.heads(latent, states.h).hazard.cpu()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
