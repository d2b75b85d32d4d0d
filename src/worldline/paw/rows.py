"""Step rows: one training sequence `h_t | a_t | o_{t+1}` per environment step (PaW section 3.1).

Rows are not joined into a dialogue: each step is its own sequence, with the prompt and response tokens the policy
really saw and drew. What the world answered follows right after the response, where the causal mask hides it from
the action. With a horizon above 1 it goes on along the logged actions, `o_{t+1} a_{t+1} o_{t+2} ...`: those
actions are context, the observations are targets (the paper's first limitation).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from worldline.paw.novelty import Sentence, repeated_places
from worldline.types import InputError, Step, Trajectory


@dataclass(frozen=True, slots=True)
class Observed:
    """An observation's tokens, which are unpredictable (`noise.py`; a diagnostic only), and which are no targets."""

    ids: tuple[int, ...]
    noisy: tuple[bool, ...]
    skipped: frozenset[int] = frozenset()
    """Places of the tokens that are read, but not learned."""
    sentences: tuple[Sentence, ...] = ()
    """Where those that the episode has shown before are no targets; none: all are."""


Encode = Callable[[str], Observed]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. `continuation` is empty where the world's answer is empty or is kept out of the targets."""

    trajectory: int
    """Its place in the list of trajectories of the update."""
    step: int
    prompt: tuple[int, ...]
    response: tuple[int, ...]
    continuation: tuple[int, ...]
    observed: tuple[bool, ...]
    """Which tokens of the continuation are the world's: the targets."""
    noisy: tuple[bool, ...]
    cut: bool
    """The continuation was longer than its budget."""

    @property
    def targets(self) -> int:
        """|o_{t+1}|: how many observation tokens the row holds."""
        return sum(self.observed)

    @property
    def transition(self) -> tuple[tuple[int, ...], ...]:
        """(h_t, a_t, o_{t+1}) and its targets: two rows that agree here teach the world model the same thing."""
        return self.prompt, self.response, self.continuation, self.observed


def to_rows(
    trajectories: Sequence[Trajectory],
    encode: Encode,
    *,
    horizon: int = 1,
    max_continuation: int = 512,
    max_length: int | None = None,
    last_answer: bool = True,
) -> list[StepRow]:
    """All steps of `trajectories`, in order.

    `encode` gives an observation's tokens, without special ones. A continuation is cut to `max_continuation`
    tokens, and further where the row would pass `max_length`. Without `last_answer` the observation that ends an
    episode is no target: WebShop's shows the score, which would be a label leak.
    """
    encode = lru_cache(maxsize=None)(encode)  # most observations occur many times
    rows = []
    for index, trajectory in enumerate(trajectories):
        answers = _answers(trajectory, encode, last_answer)
        for t, step in enumerate(trajectory.steps):
            prompt, response = _tokens(trajectory, t, step)
            tokens, observed, noisy = _continuation(trajectory, t, answers, horizon)
            room = max_continuation
            if max_length is not None:
                room = max(0, min(room, max_length - len(prompt) - len(response)))
            cut = len(tokens) > room
            rows.append(StepRow(index, t, prompt, response, tokens[:room], observed[:room], noisy[:room], cut))
    return rows


def _tokens(trajectory: Trajectory, t: int, step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not step.prompt_ids or not step.token_ids:
        raise InputError(
            f"episode {trajectory.id}, step {t}: no prompt or response tokens; training needs a policy that keeps them"
        )
    return step.prompt_ids, step.token_ids


def _answers(trajectory: Trajectory, encode: Encode, last_answer: bool) -> list[Observed]:
    """o_0, o_1, ...; in each, the sentences that an earlier one had are skipped too."""
    observations = [encode(_observation(trajectory, t, last_answer)) for t in range(len(trajectory) + 1)]
    repeated = repeated_places(observation.sentences for observation in observations)
    return [
        replace(observation, skipped=observation.skipped | places) if places else observation
        for observation, places in zip(observations, repeated, strict=True)
    ]


def _continuation(
    trajectory: Trajectory, t: int, answers: Sequence[Observed], horizon: int
) -> tuple[tuple[int, ...], tuple[bool, ...], tuple[bool, ...]]:
    """Tokens, which of them are the world's, which of them are noisy."""
    tokens: list[int] = []
    observed: list[bool] = []
    noisy: list[bool] = []
    for ahead in range(t + 1, min(t + horizon, len(trajectory)) + 1):
        action = (trajectory.steps[ahead - 1].token_ids or ()) if ahead > t + 1 else ()
        answer = answers[ahead]
        tokens += [*action, *answer.ids]
        observed += [False] * len(action) + [at not in answer.skipped for at in range(len(answer.ids))]
        noisy += [False] * len(action) + list(answer.noisy)
    if not any(observed):
        return (), (), ()
    return tuple(tokens), tuple(observed), tuple(noisy)


def _observation(trajectory: Trajectory, t: int, last_answer: bool) -> str:
    """o_t; after the last step, what the world answered to it."""
    if t < len(trajectory):
        return trajectory.steps[t].observation
    return trajectory.final_observation if last_answer or not trajectory.terminated else ""
