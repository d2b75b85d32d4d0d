"""A share of a run's episodes, played in a process of its own and written into the run's folder from there.

Every process opens the folder itself: the store lets many write at once. A shard that is played again, because its
process died, plays what the folder does not hold. Episodes draw from their own seeds, so they are the same in any
process, in any order.
"""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from worldline import envs, policies, store
from worldline.policies import PolicyConfig
from worldline.policies.prompts import Counts
from worldline.ray_pool import RayPool
from worldline.rollout import Episode, Rollout
from worldline.tally import Tally
from worldline.types import Policy, Trajectory, WorldlineError
from worldline.user_module import error_text


@dataclass(frozen=True)
class ShardRun:
    """Whatever a process needs to know to play episodes of a run, besides these."""

    env: str
    data: Path | None
    options: str
    """The environment's settings as JSON."""
    policy: str
    settings: PolicyConfig
    epsilon: float
    policy_name: str
    batch_size: int
    max_steps: int | None
    out: Path | None

    def player(self) -> tuple[Rollout, Policy]:
        """The rollout engine, and the policy in it."""
        return _player(self)


@dataclass
class ShardOutcome:
    """What playing some episodes came to."""

    tally: Tally = field(default_factory=Tally)
    played_steps: int = 0
    retried: int = 0
    mishap: str = ""
    failed: list[str] = field(default_factory=list)
    truncated_prompts: int = 0

    def add(self, other: "ShardOutcome") -> None:
        self.tally.join(other.tally)
        self.played_steps += other.played_steps
        self.retried += other.retried
        self.mishap = self.mishap or other.mishap
        self.failed += other.failed
        self.truncated_prompts += other.truncated_prompts


def play_shard(run: ShardRun, episodes: Sequence[Episode]) -> ShardOutcome:
    """Play what the folder does not hold of these episodes. What it holds was written by a process that died."""
    player, policy = run.player()
    player.retried, player.mishap, player.failed = 0, "", []
    before = shortened_prompts(policy)
    outcome = ShardOutcome()
    if run.out is None:
        missing, writer = list(episodes), None
    else:
        writer = store.StoreWriter(run.out)
        held = writer.held(episode.id for episode in episodes)
        outcome.tally.recall(run.out, held)
        missing = [episode for episode in episodes if episode.id not in held]
    kept = outcome.tally.steps
    with writer or nullcontext():
        for trajectory in guarded(player, missing, run.out):
            outcome.tally.add(trajectory)
            if writer is not None:
                writer.append(trajectory)
    outcome.played_steps = outcome.tally.steps - kept
    outcome.retried, outcome.mishap, outcome.failed = player.retried, player.mishap, player.failed
    outcome.truncated_prompts = shortened_prompts(policy) - before
    return outcome


def play_shards(
    pool: RayPool,
    run: ShardRun,
    episodes: Sequence[Episode],
    tally: Tally,
    watch: Callable[[Tally], None],
    at_once: int,
) -> ShardOutcome:
    """All episodes, by tasks of the pool, `at_once` at a time; they join `tally`, which `watch` sees after each."""
    total = ShardOutcome(tally=tally)
    waiting = iter(_cut(episodes, at_once, run.batch_size))
    running: set[Future[ShardOutcome]] = set()
    with pool.failures():
        while True:
            while len(running) < at_once and (shard := next(waiting, None)) is not None:
                running.add(pool.submit(play_shard, run, shard))
            if not running:
                return total
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
                watch(tally)


def guarded(player: Rollout, episodes: Sequence[Episode], out: Path | None) -> Iterator[Trajectory]:
    """The rollout's trajectories; a policy that raises fails the work with one line, after what it finished is out.

    They are written to `out`, where it is given: the line says what is kept.
    """
    try:
        yield from player.play(episodes)
    except WorldlineError:
        raise
    except (Exception, SystemExit) as error:
        kept = "finished episodes are kept, --resume goes on" if out else "without --out nothing is kept"
        place = f", at task {player.failing_task}" if player.failing_task else ""
        line = f"policy '{player.name}' failed in the middle{place}: {error_text(error)}; {kept}"
        raise WorldlineError(line) from error


def shortened_prompts(policy: Policy) -> int:
    """How many prompts a language model's policy had to shorten; other policies read everything."""
    counts = getattr(policy, "counts", None)
    return counts.dropped_history + counts.cut_observation if isinstance(counts, Counts) else 0


def _cut(episodes: Sequence[Episode], at_once: int, batch_size: int) -> Iterator[Sequence[Episode]]:
    """Shares of a few batches, so that a process that died costs little, and at least two for each worker."""
    size = max(1, min(4 * batch_size, -(-len(episodes) // (2 * at_once))))
    return (episodes[start : start + size] for start in range(0, len(episodes), size))


@functools.lru_cache(maxsize=1)
def _player(run: ShardRun) -> tuple[Rollout, Policy]:
    """Loaded once in a process, which plays many shards of one run."""
    world = envs.load(run.env, run.data, json.loads(run.options))
    policy = policies.load(run.policy, world, run.settings)
    player = Rollout(
        world,
        policies.mix(policy, run.epsilon, run.policy_name),
        batch_size=run.batch_size,
        epsilon=run.epsilon,
        policy_name=run.policy_name,
        max_steps=run.max_steps,
    )
    return player, policy
