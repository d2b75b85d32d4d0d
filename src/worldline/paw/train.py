"""On-policy training of a language agent with PaW: Algorithm 1 of the paper, as one loop.

Runs on accelerate: one process on a CPU or a GPU as it is, many by `accelerate launch`. What an update does follows
from the seed and its number, so a resumed run goes on as if it had never stopped. What may go wrong: an environment
that raises costs its episode (played again once, then left out of its group); a step that is not finite is not taken
(`skipped` counts them); a reward that is no number, an update with fewer than half of its episodes or of its steps,
or after which a weight is not finite, stops the run, with the last checkpoint, if there is one, whole.
"""

import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from worldline import tracking
from worldline.notebook import html_table
from worldline.paw.advantages import assign
from worldline.paw.batches import mini_batch_count, mini_batches
from worldline.paw.credit import TokenCredit
from worldline.paw.evaluation import success_share
from worldline.paw.gradient import Experience
from worldline.paw.gradient_angle import gradient_angle
from worldline.paw.groups import Groups
from worldline.paw.learning_rate import rate_share, set_rates
from worldline.paw.mismatch import correct, oldest
from worldline.paw.pool import Pool, to_pool
from worldline.paw.processes import everywhere, local_part
from worldline.paw.progress import unrewarded
from worldline.paw.recipe import TrainConfig
from worldline.paw.rewards import RewardRule
from worldline.paw.rows import StepRow
from worldline.paw.run import RunFolder
from worldline.paw.sequences import token_sequences
from worldline.paw.session import Playing, Session
from worldline.paw.update import TokenScores, update
from worldline.paw.world import WorldTargets, select_world
from worldline.types import Trajectory, WorldlineError, derive_seed


@dataclass(frozen=True)
class Trained:
    """What came out of a run: the last line of metrics, the last checkpoint."""

    metrics: dict[str, Any]
    checkpoint: Path
    notes: tuple[str, ...] = ()
    """What was wrong in the folder of a resumed run, and with what was learned from."""

    def _repr_html_(self) -> str:
        rows = [(name, f"{value:.4g}") for name, value in self.metrics.items() if isinstance(value, int | float)]
        return html_table(f"trained: {self.checkpoint}", ("metric", "value"), rows)


Watch = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    watch: Watch = lambda metrics: None,
    playing: Playing = lambda what, ended, planned, won: None,
    begin: Callable[[int], None] = lambda update: None,
) -> Trained:
    """Run Algorithm 1 for `config.updates` updates.

    `watch` and the tracker see every line of metrics, `playing` every episode that ends on the way to the next, and
    `begin` the number of updates that the run has behind it: 0, or that of the checkpoint it goes on from.
    """
    main = os.environ.get("RANK", "0") == "0"
    settings = config.model_dump(mode="json")
    with tracking.tracked(config.track if main else None, config.out.name, settings) as send:

        def publish(metrics: dict[str, Any]) -> None:
            send(metrics)
            watch(metrics)

        run, session = RunFolder(config), Session(config, playing)
        with run.open(session.accelerator):
            begin(run.newest_update)
            return _algorithm_1(config, session, run, publish)


def _algorithm_1(config: TrainConfig, session: Session, run: RunFolder, watch: Watch) -> Trained:
    accelerator, learner, optimizer, actor = session.accelerator, session.learner, session.optimizer, session.actor
    start_episodes: list[Trajectory] = []  # the start policy's own, played before its weights change
    session.refresh(0)
    if config.evaluation.every:
        few = run.resumable() or not config.evaluation.due(0, config.updates)  # then only what it saw is needed
        start_episodes = session.play_held_out(config.evaluation.held_out if few else None)
    done = run.restore(learner, optimizer)
    if done:
        session.refresh(done)
    held_out = start_episodes[: config.evaluation.held_out]
    metrics: dict[str, Any] = {"update": done} | run.last_metrics()
    if done == 0 and start_episodes:
        judged = start_episodes if config.evaluation.due(0, config.updates) else []
        metrics |= session.evaluation(judged, held_out)
        run.write(metrics)
        watch(metrics)

    for number in range(done + 1, config.updates + 1):
        clock = Clock(accelerator.device)

        with clock("rollout"):  # collect groups with the current policy
            sampled = session.play_groups(number)
            played = sampled.kept
            _enough(sampled.played, config.groups * config.group_size, number, run)
            stale = _fresh(played, number, config, run)
            run.keep(sampled.played.trajectories)
        halted = _halted(sampled.played)
        if halted > config.most_halted:
            if number - 1 > done and not _due(number - 1, config.checkpoint_every, config.updates):
                run.save(number - 1, learner, optimizer, actor, session.tokenizer)
            raise _left_the_log(number, halted, config, run)

        with clock("logprob"):  # form the pool; the old policy and the reference score it
            rows = session.rows(played.trajectories)
            pool = to_pool(rows, played.trajectories, played.groups, session.rule, session.pays)
            old = session.score(rows) if _needs_scores(pool, config) else None
            reference = session.reference_logprobs(rows)
            credit = assign(pool, config.algo, config.preset, config.credit, old.value if old else None)
            correction = None
            if config.server.url and old:  # the server's policy is not quite the learner's
                correction = correct(pool.sampled_logprobs, old.logprob, config.server.cap)
                credit = replace(credit, advantages=credit.advantages * correction.weights)

        targets = None
        if config.wm != "off":  # which transitions teach the world model (eq. 4), how much each group counts (eq. 10)
            with clock("selection"):
                targets = select_world(
                    pool,
                    _entropies(pool, old),
                    config.targets,
                    update=number - 1,
                    updates=config.updates,
                    seed=derive_seed(config.seed, "selection", number),
                )
            if number <= config.world.alone:  # the policy waits until the world is learned a little
                credit = replace(credit, advantages=torch.zeros_like(credit.advantages))

        with clock("update"):  # eq. 11
            experience = _experience(rows, credit, targets, old, reference, config)
            share = rate_share(number, config.updates, config.update.schedule, session.warmup)
            set_rates(optimizer, session.rates, share)
            seed = derive_seed(config.seed, "mini-batches", number)
            angle = _angle(session, experience, config, seed) if targets and _measured(number, config) else {}
            learnt = update(
                learner,
                optimizer,
                experience,
                config.stepping,
                accelerator,
                kind=config.world_loss,
                rho=config.world.rho,
                seed=seed,
            )
            session.refresh(number)
        if learnt["skipped"] > learnt["steps"] or not _finite(learner, accelerator):
            raise WorldlineError(f"update {number} exploded: lower --update.lr; {run.last_whole()}")

        metrics = {"update": number} | _episode_metrics(sampled.played, pool, session.rule)
        if config.refill:
            metrics["groups_dropped"] = sampled.dropped
        metrics |= {"shortened_prompts": session.shortened(), "learning_rate": session.rates[0] * share}
        metrics |= learnt | angle
        if correction:
            metrics |= {"staleness": stale} | correction.metrics
        if targets:
            metrics |= _world_metrics(targets, experience, clock)
        if config.evaluation.due(number, config.updates):
            with clock("evaluation"):
                metrics |= session.evaluation(session.play_held_out(), held_out)
        metrics |= clock.metrics()
        run.write(metrics)
        watch(metrics)
        if _due(number, config.checkpoint_every, config.updates):
            run.save(number, learner, optimizer, actor, session.tokenizer)
    return Trained(metrics, run.checkpoints()[-1], (*run.notes, *unrewarded(run.all_metrics())))


def _experience(
    rows: list[StepRow],
    credit: TokenCredit,
    targets: WorldTargets | None,
    old: TokenScores | None,
    reference: Tensor | None,
    config: TrainConfig,
) -> Experience:
    """What the update learns from; values only for PPO, which has a critic."""
    ppo = config.algo == "ppo"
    return Experience(
        rows=rows,
        advantages=credit.advantages,
        world_weights=targets.weights if targets else torch.zeros(len(rows)),
        old_logprobs=old.logprob if old else None,
        reference_logprobs=reference,
        old_values=old.value if old and ppo else None,
        value_targets=credit.returns if ppo else None,
        temperature=config.rollout.temperature,
    )


def _needs_scores(pool: Pool, config: TrainConfig) -> bool:
    """Whether the old policy must score its actions again: not if there is one step, whose policy is the old one."""
    one_step = config.update.epochs * mini_batch_count(len(pool.rows), config.update.mini_batch) == 1
    has_entropies = config.wm == "off" or all(step.entropy is not None for step in pool.steps)
    return config.algo == "ppo" or not one_step or not has_entropies or bool(config.server.url)


def _entropies(pool: Pool, old: TokenScores | None) -> Tensor:  # (rows,)
    """The mean entropy of each response, as the rollout saw it, else as the old policy does now."""
    entropies = [step.entropy for step in pool.steps if step.entropy is not None]
    if len(entropies) == len(pool.rows) or old is None:
        return torch.tensor([step.entropy or 0.0 for step in pool.steps])
    return torch.stack([tokens.mean() for tokens in torch.split(old.entropy, pool.lengths.tolist())])


def _halted(played: Groups) -> float:
    """The share of imagined episodes that left what the log supports; 0 in a real world."""
    halted = [trajectory.meta["halted"] == "true" for trajectory in played.trajectories if "halted" in trajectory.meta]
    return sum(halted) / len(halted) if halted else 0.0


def _left_the_log(number: int, halted: float, config: TrainConfig, run: RunFolder) -> WorldlineError:
    enough = math.ceil(100 * halted) / 100
    return WorldlineError(
        f"update {number}: {halted:.0%} of its episodes left what the log supports (--most-halted "
        f"{config.most_halted:g}): the world model can teach it no more; {run.last_whole()}; --resume --most-halted "
        f"{enough:g} goes on all the same"
    )


def _enough(played: Groups, planned: int, number: int, run: RunFolder) -> None:
    if 2 * len(played.trajectories) < planned:
        raise WorldlineError(
            f"update {number}: {planned - len(played.trajectories)} of {planned} episodes failed, the first as "
            f"{played.failed[0]}; {run.last_whole()}"
        )


def _fresh(played: Groups, number: int, config: TrainConfig, run: RunFolder) -> int:
    """How many updates the weights that played are behind; too many are refused."""
    stale = oldest([trajectory.policy for trajectory in played.trajectories], number - 1)
    if stale > config.server.max_staleness:
        raise WorldlineError(
            f"update {number}: its episodes were played by weights {stale} updates old, over --server.max-staleness "
            f"{config.server.max_staleness}; {run.last_whole()}"
        )
    return stale


def _finite(learner: Any, accelerator: Any) -> bool:
    trained = (weight for weight in learner.parameters() if weight.requires_grad)
    here = all(bool(local_part(weight).isfinite().all()) for weight in trained)
    return everywhere(here, accelerator)


def _due(number: int, every: int, last: int) -> bool:
    return bool(every) and (number % every == 0 or number == last)


def _measured(number: int, config: TrainConfig) -> bool:
    """Whether the two gradients are compared: at the first update, and then now and then."""
    return bool(config.world.angle_every) and (number == 1 or number % config.world.angle_every == 0)


def _angle(session: Session, experience: Experience, config: TrainConfig, seed: int) -> dict[str, float]:
    """The two gradients of the mini-batch that the update will begin with."""
    generator = torch.Generator().manual_seed(seed)
    return gradient_angle(
        session.learner,
        session.optimizer,
        experience,
        mini_batches(experience.rows, config.update.mini_batch, generator)[0],
        config.stepping,
        session.accelerator,
        kind=config.world_loss,
        rho=config.world.rho,
    )


def _episode_metrics(played: Groups, pool: Pool, rule: RewardRule) -> dict[str, float]:
    """What the episodes of the update came to: all that were played, though rows are those that are learned from."""
    episodes = len(played.trajectories)
    scores = [trajectory.score for trajectory in played.trajectories if trajectory.score is not None]
    steps = [step for trajectory in played.trajectories for step in trajectory.steps]
    metrics = {
        "reward": sum(sum(rule.rewards(trajectory)) for trajectory in played.trajectories) / episodes,
        **success_share("success", played.trajectories),
        "episodes": episodes,
        "failed": len(played.failed),
        "rows": len(pool.rows),
        "invalid": sum(not step.valid for step in steps) / len(steps),
        "response_tokens": float(pool.lengths.double().mean()),
    }
    if any("halted" in trajectory.meta for trajectory in played.trajectories):
        metrics["halted"] = _halted(played)
    return metrics | ({"score": sum(scores) / len(scores)} if scores else {})


def _world_metrics(targets: WorldTargets, experience: Experience, clock: "Clock") -> dict[str, float]:
    """What the world-model side saw; its seconds are the update's, by its share of the tokens read."""
    rows, world = experience.rows, (experience.world_weights > 0).tolist()
    plain, full = (sum(len(s.tokens) for s in token_sequences(rows, range(len(rows)), w)) for w in (None, world))
    return {
        "lambda": float(targets.coefficients.mean()),
        "wm_rows": int(targets.selected.sum()),
        "wm_cut_rows": sum(row.cut for row in rows),
        "wm_repeated": targets.repeated,
        "update_tokens": full,
        "wm_tokens_share": 1 - plain / full,
        "seconds_wm": clock.seconds["update"] * (1 - plain / full),
    }


class Clock:
    """Seconds per phase of one update, and its peak memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        started = self._now()
        yield
        self.seconds[phase] = self._now() - started

    def metrics(self) -> dict[str, float]:
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device) / 2**30
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of the process so far
        return {f"seconds_{phase}": seconds for phase, seconds in self.seconds.items()} | {"peak_gib": peak}

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
