"""Counting worlds in which something is wrong."""

from counting import CountingEnv, CountingWorld
from worldline.types import StepResult


class _Nan(CountingEnv):
    def step(self, action: str) -> StepResult:
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class NanWorld(CountingWorld):
    """Pays what is no number."""

    def make(self) -> CountingEnv:
        return _Nan()


class _Shaky(CountingEnv):
    def step(self, action: str) -> StepResult:
        return super().step("crash" if self.target == 2 else action)


class ShakyWorld(CountingWorld):
    """Task 2 raises at every step; the others work."""

    def make(self) -> CountingEnv:
        return _Shaky()


class _Broken(CountingEnv):
    def step(self, action: str) -> StepResult:
        return super().step("crash" if self.target > 1 else action)


class BrokenWorld(CountingWorld):
    """Two tasks of three raise."""

    def make(self) -> CountingEnv:
        return _Broken()
