"""The ALFWorld-compatible household engine, and `household`: a generator of new houses on it."""

from worldline.envs.household.world import HouseholdConfig, HouseholdWorld

__all__ = ["HouseholdConfig", "HouseholdWorld"]
