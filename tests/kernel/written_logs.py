"""Logs of worlds whose rules are written here, and what a model of one says of a step."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import KernelModel
from worldline.kernel.paths import Path
from worldline.types import Step, Trajectory

Listed = tuple[str, ...] | None


@dataclass(frozen=True)
class Played:
    """One step of a written episode: the action, the answer, what it earned, and what is listed after it."""

    action: str
    answer: str
    reward: float = 0.0
    listed: Listed = None


def episode(
    name: str,
    start: str,
    steps: Sequence[Played],
    *,
    task: str = "t",
    goal: str = "",
    listed: Listed = None,
    policy: str = "p",
    ended: bool = True,
    success: bool = False,
) -> Trajectory:
    seen = [start, *(step.answer for step in steps)]
    offered = [listed, *(step.listed for step in steps)]
    return Trajectory(
        id=name,
        env="written",
        task_id=task,
        goal=goal,
        policy=policy,
        steps=tuple(
            Step(observation=seen[at], admissible=offered[at], action=step.action, reward=step.reward)
            for at, step in enumerate(steps)
        ),
        final_observation=seen[-1],
        terminated=ended,
        truncated=not ended,
        success=success,
    )


RED, GREEN = "The lamp glows red.", "The lamp glows green."
TO_GREEN = {(RED, "wait"): 0.2, (RED, "press"): 0.7, (GREEN, "wait"): 0.5, (GREEN, "press"): 0.9}
"""The chance of green after a state and an action."""
PAID, OVER = 0.6, 0.25
"""The chance that pressing is paid when green follows; that pressing ends the episode."""


def lamps(episodes: int, seed: int, length: int = 8) -> list[Trajectory]:
    """Two states, two actions, and chances known exactly. The world forgets everything but its state."""
    rng = random.Random(seed)
    out = []
    for number in range(episodes):
        state = start = rng.choice((RED, GREEN))
        steps: list[Played] = []
        over = False
        while not over and len(steps) < length:
            action = rng.choice(("wait", "press"))
            state = GREEN if rng.random() < TO_GREEN[state, action] else RED
            pressed = action == "press"
            paid = pressed and state == GREEN and rng.random() < PAID
            over = pressed and rng.random() < OVER
            steps.append(Played(action, state, float(paid), ("press", "wait")))
        out.append(episode(f"e{number}", start, steps, task=f"t{number % 10}", listed=("press", "wait"), ended=over))
    return out


THINGS = ("apple", "brush", "candle", "dish", "eraser", "fork", "glove", "hammer")


def shelf(held: frozenset[str], things: Sequence[str]) -> tuple[str, ...]:
    """The rule of the lists: whatever is held can be dropped, everything else can be taken."""
    return tuple(sorted([*(f"drop {x}" if x in held else f"take {x}" for x in things), "rest"]))


def shelves(episodes: int, seed: int, length: int = 8) -> list[Trajectory]:
    """A world of lists: four things of eight, taken and dropped at random. A task has always the same four."""
    rng = random.Random(seed)
    out = []
    for number in range(episodes):
        task = rng.randrange(20)
        things = random.Random(task).sample(THINGS, 4)
        held: frozenset[str] = frozenset()
        steps = []
        for _ in range(length):
            action = rng.choice(shelf(held, things))
            verb, _, thing = action.partition(" ")
            held = held ^ {thing} if thing else held
            answer = {"take": f"You take the {thing}.", "drop": f"You drop the {thing}."}.get(verb, "You rest.")
            steps.append(Played(action, answer, 0.0, shelf(held, things)))
        out.append(
            episode(
                f"s{seed}-{number}",
                "A bare room. Here are " + ", ".join(things) + ".",
                steps,
                task=f"t{task}",
                listed=shelf(frozenset(), things),
                ended=False,
            )
        )
    return out


COLOURS = ("amber", "cobalt", "jade", "pearl")
OPENS, SHUT = "The gate swings wide.", "The gate stays shut."


def walk(name: str, noted: str, taken: str, pace: int) -> Trajectory:
    """The note names a colour; `pace` steps later a key is taken; the gate opens to the key of the note alone."""
    steps = [Played("walk on", "A long corridor.") for _ in range(pace)]
    steps += [Played(f"take the {taken} key", "It is cold in the hand.")]
    steps += [Played("walk on", "A long corridor.") for _ in range(2)]
    right = noted == taken
    steps += [Played("open the gate", OPENS if right else SHUT, float(right))]
    note = f"A note on the wall: the {noted} key fits."
    return episode(name, note, steps, goal="Leave the cellar.", task="cellar", success=right)


def walks(episodes: int, seed: int) -> list[Trajectory]:
    """Half of them take the right key."""
    rng = random.Random(seed)
    out = []
    for number in range(episodes):
        noted = rng.choice(COLOURS)
        wrong = rng.choice([colour for colour in COLOURS if colour != noted])
        taken = noted if rng.random() < 0.5 else wrong
        out.append(walk(f"w{number}", noted, taken, rng.randint(1, 3)))
    return out


def state_after(model: KernelModel, logged: Trajectory, steps: int) -> EpisodeState:
    """The state after the first steps of an episode."""
    first = logged.steps[0]
    state = EpisodeState(model.log.language, logged.task_id, logged.goal, first.observation, first.admissible)
    for at, (step, answer) in enumerate(zip(logged.steps[:steps], logged.next_observations, strict=False)):
        after = logged.steps[at + 1].admissible if at + 1 < len(logged) else None
        state.advance(state.describe(step.action), answer, step.reward, after)
    return state


def text_chances(model: KernelModel, state: EpisodeState, action: str, turn: int = 0) -> dict[str, float]:
    """The probability of each text that may be answered."""
    considered = model.consider(state, action, turn=turn)
    described = model.described(considered)
    (chances,) = model.weighed([considered], [described])
    out: dict[str, float] = defaultdict(float)
    for text, chance in zip(considered.candidates.texts, chances.tolist(), strict=True):
        out[text] += chance
    return dict(out)


def left_of(path: Path) -> tuple[str, ...]:
    """The actions of a path, the first one first."""
    return () if path.before is None else (*left_of(path.before), path.action)


UNDERSTOOD = ("Ah, I see!", "That makes sense.", "Now it is clear.")
LOST = ("I am lost.", "What do you mean?", "Not at all.")
PUPILS = ("Lena", "Ravi", "Emil", "Aiko")


def lessons(episodes: int = 240, *, marked: bool = True) -> list[Trajectory]:
    """A pupil understands a lesson or not, in words of their own; the mark, and what it earns, is how often.

    Not `marked`: any mark.
    """
    rng = random.Random(0)
    out = []
    for number in range(episodes):
        name, steps, good = rng.choice(PUPILS), [], 0
        for _ in range(rng.randint(1, 5)):
            understood = rng.random() < 0.5
            good += understood
            steps.append(Played("explain it", f"{name}: {rng.choice(UNDERSTOOD if understood else LOST)}"))
        mark = 20 + 10 * good + rng.randint(-2, 2) if marked else rng.randint(20, 70)
        steps.append(Played("test", f"The mark is {mark} of 75.", mark / 75))
        out.append(episode(f"e{number}", f"{name} sits down.", steps, task=f"t{number}", policy="ab"[number % 2]))
    return out
