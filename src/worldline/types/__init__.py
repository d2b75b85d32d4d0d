"""The vocabulary of worldline: trajectories, environments, policies, errors. Imports nothing of the rest."""

from worldline.types.environment import (
    EagerEnvironment,
    Environment,
    Info,
    LazyActions,
    StepResult,
    World,
    lowest_return,
)
from worldline.types.errors import InputError, WorldlineError
from worldline.types.policy import Decision, EagerPolicy, Exchange, Policy, ScoringPolicy, Turn, policy_label, turns
from worldline.types.randomness import derive_seed, uniform
from worldline.types.trajectory import LARGEST_REWARD, NOT_LOGGED, SCHEMA_VERSION, Step, Trajectory

__all__ = [
    "LARGEST_REWARD",
    "NOT_LOGGED",
    "SCHEMA_VERSION",
    "Decision",
    "EagerEnvironment",
    "EagerPolicy",
    "Environment",
    "Exchange",
    "Info",
    "InputError",
    "LazyActions",
    "Policy",
    "ScoringPolicy",
    "Step",
    "StepResult",
    "Trajectory",
    "Turn",
    "World",
    "WorldlineError",
    "derive_seed",
    "lowest_return",
    "policy_label",
    "turns",
    "uniform",
]
