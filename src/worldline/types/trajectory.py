"""Trajectory and Step: the one asset everything in worldline reads or writes.

Frozen and versioned. Token ids, behaviour log-probabilities and entropies exist only while a policy acts, so
they are kept here and nothing is tokenised or scored again.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
LARGEST_REWARD = 1e100
"""Beyond this, sums of squares and products with importance weights do not fit a double."""
NOT_LOGGED = "not logged"
"""`meta["steps"]` of an episode of which only the outcome was logged: its one empty step carries the reward."""

Tokens = tuple[Annotated[int, Field(ge=-(2**31), lt=2**31)], ...]
"""Token ids; like `Trajectory.seed`, as wide as the store's column, so that a trajectory can always be stored."""


class Step(BaseModel):
    """One decision: what the agent saw, what it did, what it got."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")

    observation: str
    admissible: tuple[str, ...] | None = None
    action: str
    response: str = ""
    """The policy's raw text; `action` is what was parsed from it and sent to the environment."""
    reward: float = 0.0
    valid: bool = True
    """False when the environment did not understand the action."""
    logprob: float | None = None
    """Behaviour log-probability of `action`, at the temperature used and with epsilon-mixing included."""
    token_ids: Tokens | None = None
    token_logprobs: tuple[float, ...] | None = None
    """Per response token, of the policy itself (no epsilon-mixing)."""
    entropy: float | None = None
    """Mean full-vocabulary entropy (nats) over the response tokens."""
    prompt_ids: Tokens | None = None
    """The prompt's tokens; kept only on request (training needs them)."""


class Trajectory(BaseModel):
    """One episode. `final_observation` is what the world answered to the last action."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")

    schema_version: int = SCHEMA_VERSION
    id: str
    env: str
    env_version: str = ""
    family: str = ""
    """The kind of environment, which decides the prompt's wording (see `World.family`)."""
    task_id: str
    split: str = ""
    goal: str = ""
    policy: str
    epsilon: float = 0.0
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    steps: tuple[Step, ...]
    final_observation: str = ""
    terminated: bool = False
    """The world ended the episode; `truncated`: the step budget did. Both false: an interrupted source log."""
    truncated: bool = False
    success: bool | None = None
    score: float | None = None
    """The environment's own final score where it has one besides the reward (WebShop, ScienceWorld, F1)."""
    meta: dict[str, str] = Field(default_factory=dict)

    @property
    def episode_return(self) -> float:
        """Undiscounted sum of rewards."""
        return sum(step.reward for step in self.steps)

    @property
    def logged_steps(self) -> int:
        """How many steps the source logged; 0 where it has the outcome alone."""
        return 0 if self.meta.get("steps") == NOT_LOGGED else len(self.steps)

    @property
    def next_observations(self) -> tuple[str, ...]:
        """What the world answered to the action of each step."""
        return (*(step.observation for step in self.steps[1:]), self.final_observation)

    def __len__(self) -> int:
        return len(self.steps)
