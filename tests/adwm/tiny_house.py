"""The tiny household and policies of graded quality in it."""

from worldline import envs, policies
from worldline.rollout import Rollout, plan
from worldline.types import Policy, Trajectory, World


def tiny_house() -> World:
    return envs.load("household", options={"level": "tiny", "families": ("pick", "heat")})


def mixed(world: World, epsilon: float) -> Policy:
    """The environment's expert with a share of chance."""
    return policies.mix(policies.load("expert", world, policies.PolicyConfig()), epsilon)


def play(world: World, epsilon: float, episodes: int, seed: int = 0, tasks: range = range(24)) -> list[Trajectory]:
    rollout = Rollout(world, mixed(world, epsilon), policy_name=f"eps{epsilon:g}", epsilon=epsilon)
    played = rollout.play(plan(world, "train", episodes, seed=seed, run=f"r{epsilon:g}-{seed}", tasks=list(tasks)))
    return sorted(played, key=lambda episode: episode.id)
