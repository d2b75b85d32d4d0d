"""The log as a memory: what the world once answered, found again and carried over to another episode.

For an action in an episode, `candidates` proposes answers: what this episode has already seen, what other episodes
of the same task saw, and what the same kind of action met in other tasks, with the things of that episode renamed
into those of this one (the action's own, the goal's by role, others by what was last done to them). Which of them
is the likeliest is the decoder's business.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from worldline.adwm.chronicle import Chronicle
from worldline.adwm.grammar import Command, Grammar, kind, renamed
from worldline.adwm.recall import Custom, recalled
from worldline.adwm.tokenizer import stable_hash
from worldline.types import Trajectory

OWN, VIEW, TASK, SAME, KIND, SHAPE, REFUSED = "own", "view", "task", "same", "kind", "shape", "refused"
"""How near a source is: an earlier answer of this episode, its last view of the place, this task, the same words,
the same kinds of things, the same template; and answers to actions the world did not understand."""
_FRAMES = 8
_ENOUGH = 3
"""Of each farther kind, where this task has been seen in this very state."""
LIMITS = {OWN: 2, TASK: 8, SAME: 12, KIND: 16, SHAPE: 8, REFUSED: 2}


@dataclass(frozen=True, slots=True)
class Transition:
    """A logged step with what its answer depended on."""

    index: int
    episode: int
    step: int
    task: str
    goal: str
    action: str
    command: Command
    states: tuple[str, ...]
    answer: str
    things: tuple[str, ...]
    statuses: tuple[str, ...]
    """What had last been done to each of `things`, this step not counted."""
    valid: bool
    reward: float
    ended: bool
    admissible: tuple[str, ...] | None
    """What could be done after it; None where the log does not say."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer the world might give: where it comes from, and how it reads here."""

    near: str
    text: str
    source: Transition | None
    names: tuple[tuple[str, str], ...] = ()
    aligned: bool = True
    """Whether everything in it that had a history there has a counterpart here."""


class Memory:
    """All transitions of a log, indexed by what one looks for."""

    def __init__(self, grammar: Grammar, transitions: Sequence[Transition], custom: Custom) -> None:
        self.grammar = grammar
        self.custom = custom
        self.transitions = list(transitions)
        self._known: dict[str, dict[str, dict[str, set[int]]]] = defaultdict(lambda: defaultdict(dict))
        self._index: dict[tuple[object, ...], list[int]] = defaultdict(list)
        # a fixed shuffle: the first few of any list are a fair sample of it
        for transition in sorted(self.transitions, key=lambda tr: stable_hash(f"{tr.episode}/{tr.step}")):
            for key in _keys(transition, transition.states, grammar.goal_roles(transition.goal)):
                self._index[key].append(transition.index)
            for thing, status in zip(transition.things, transition.statuses, strict=True):
                if not status and thing not in transition.command.things:
                    found = self._known[transition.task][thing]
                    found.setdefault(transition.action, set()).add(transition.episode)

    @classmethod
    def of(cls, grammar: Grammar, episodes: Sequence[Trajectory]) -> "Memory":
        transitions: list[Transition] = []
        for number, episode in enumerate(episodes):
            for transition in replay(grammar, episode, number):
                transitions.append(_numbered(transition, len(transitions)))
        return cls(grammar, transitions, Custom.of(grammar, episodes))

    def known(self, chronicle: Chronicle) -> dict[str, set[str]]:
        """Thing -> the actions whose answers named it, untouched, in other logged episodes of this task."""
        facts = self._known.get(chronicle.task, {})
        own = {chronicle.episode}
        return {
            thing: actions
            for thing, where in facts.items()
            if (actions := {action for action, episodes in where.items() if episodes - own})
        }

    def candidates(self, chronicle: Chronicle, action: str) -> list[Candidate]:
        """Answers the world might give to `action` now, nearest first."""
        command = self.grammar.parse(action)
        found = [Candidate(OWN, text, None) for text in chronicle.answers(action)[: LIMITS[OWN]]]
        taken: set[int] = set()
        states, roles = chronicle.states(command), self.grammar.goal_roles(chronicle.goal)
        known = False
        for near, keys in _questions(chronicle.task, action, command, states, roles):
            room = _ENOUGH if known and near != REFUSED else LIMITS[near]
            for index in itertools.chain.from_iterable(self._index.get(key, ()) for key in keys):
                if not room:
                    break
                source = self.transitions[index]
                if index not in taken and source.episode != chronicle.episode:
                    taken.add(index)
                    room -= 1
                    known = known or (near == TASK and source.states == states)
                    found.append(self._carried(near, source, chronicle, command))
        return [*self._recalled(found, chronicle, command), *found]

    def like(self, action: str) -> list[int]:
        """The transitions of this very action; else of its template; else all."""
        shape = self.grammar.parse(action).template
        return self._index.get((SAME, action)) or self._index.get((SHAPE, shape)) or list(range(len(self.transitions)))

    def _recalled(self, found: Sequence[Candidate], chronicle: Chronicle, command: Command) -> Iterator[Candidate]:
        """What this episode last saw of the place the action is about, as the other candidates would put it."""
        if command.things:
            frames = dict.fromkeys(c.text for c in found if c.near not in (OWN, REFUSED))
            texts = recalled(itertools.islice(frames, _FRAMES), chronicle, command.things[-1], self.custom)
            yield from (Candidate(VIEW, text, None) for text in texts)

    def _carried(self, near: str, source: Transition, chronicle: Chronicle, command: Command) -> Candidate:
        """The source's answer in this episode's names."""
        if near in (TASK, REFUSED):
            return Candidate(near, source.answer, source)
        names = dict(zip(source.command.things, command.things, strict=False))
        theirs, ours = self.grammar.goal_roles(source.goal), self.grammar.goal_roles(chronicle.goal)
        kinds = {theirs[role]: ours[role] for role in theirs.keys() & ours.keys()}
        aligned = True
        for thing, status in zip(source.things, source.statuses, strict=True):
            if thing in names:
                continue
            mine = chronicle.counterpart(status) if status else None
            if mine is not None:
                names[thing] = mine
            elif kind(thing) in kinds:
                names[thing] = thing.replace(kind(thing), kinds[kind(thing)])
            aligned = aligned and (mine is not None or not status)
        goal = {source.goal: chronicle.goal} if source.goal in source.answer else {}
        text = renamed(renamed(source.answer, names), goal)
        return Candidate(near, text, source, tuple(names.items()), aligned)


def replay(grammar: Grammar, episode: Trajectory, number: int) -> Iterator[Transition]:
    """The transitions of one logged episode, each seen from the history it had."""
    steps = episode.steps
    chronicle = Chronicle(grammar, episode.task_id, episode.goal, steps[0].observation, number)
    for at, step in enumerate(steps):
        command = grammar.parse(step.action)
        last = at + 1 == len(steps)
        answer = episode.final_observation if last else steps[at + 1].observation
        things = grammar.things(answer)
        yield Transition(
            index=-1,
            episode=number,
            step=at,
            task=episode.task_id,
            goal=episode.goal,
            action=step.action,
            command=command,
            states=chronicle.states(command),
            answer=answer,
            things=things,
            statuses=tuple(chronicle.status.get(thing, "") for thing in things),
            valid=step.valid,
            reward=step.reward,
            ended=last and episode.terminated,
            admissible=None if last else steps[at + 1].admissible,
        )
        chronicle.advance(step.action, answer, step.valid)


def _numbered(transition: Transition, index: int) -> Transition:
    fields = {name: getattr(transition, name) for name in Transition.__slots__}
    return Transition(**{**fields, "index": index})


def _keys(tr: Transition, states: tuple[str, ...], roles: dict[str, str]) -> Iterator[tuple[object, ...]]:
    for near, keys in _questions(tr.task, tr.action, tr.command, states, roles):
        if near == REFUSED and tr.valid:
            continue
        yield from keys


def _questions(
    task: str, action: str, command: Command, states: tuple[str, ...], roles: dict[str, str]
) -> Iterable[tuple[str, tuple[tuple[object, ...], ...]]]:
    """What to look for, the nearest first, and within each the likeliest first."""
    shape, kinds = command.template, command.kinds
    wanted = tuple(sorted(roles.values()))
    return (
        (TASK, ((TASK, task, action, states), (TASK, task, action))),
        (SAME, ((SAME, action, states, wanted), (SAME, action, states), (SAME, action))),
        (KIND, ((KIND, shape, kinds, states, wanted), (KIND, shape, kinds, states), (KIND, shape, kinds))),
        (SHAPE, ((SHAPE, shape, states), (SHAPE, shape))),
        (REFUSED, ((REFUSED, shape), (REFUSED,))),
    )
