"""The log's transitions, indexed: what the world once answered, carried over to another episode.

For an action in an episode, `candidates` proposes answers: what this episode has already seen, what other episodes
of the same task saw, and what the same kind of action met in other tasks, with the things of that episode renamed
into those of this one (the action's own, the goal's by role, others by what was last done to them). Which of them
is the likeliest is the decoder's business.
"""

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.narrator.grammar import Command, Grammar, kind, listing, relisted, renamed
from worldline.narrator.history import History
from worldline.narrator.words import stable_hash
from worldline.types import Trajectory

OWN, VIEW, TASK, SAME, KIND, SHAPE, REFUSED = "own", "view", "task", "same", "kind", "shape", "refused"
"""How near a source is: an earlier answer of this episode, its last view of the place, this task, the same words,
the same kinds of things, the same template; and answers to actions the world did not understand."""
_FRAMES = 8
_ENOUGH = 3
"""Of each farther kind, where this task has been seen in this very state."""
_MEMO = 1 << 17
LIMITS = {OWN: 2, TASK: 8, SAME: 12, KIND: 16, SHAPE: 8, REFUSED: 2}
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_HEAD = 5
"""Words of a sentence's outline that tell whether two sentences say the same sort of thing."""


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
class CandidateAnswer:
    """An answer the world might give: where it comes from, and how it reads here."""

    near: str
    text: str
    source: Transition | None
    names: tuple[tuple[str, str], ...] = ()
    aligned: bool = True
    """Whether everything in it that had a history there has a counterpart here."""

    @property
    def done(self) -> bool:
        """Whether it is of an action like this one, with things of these kinds, that the log's world did."""
        return self.near in (TASK, SAME, KIND) and self.source is not None and self.source.valid


def spliced(frame: str, view: str, grammar: Grammar) -> str | None:
    """`frame` up to the sentence that `view` says of the same thing, and `view` from there on; None if it says none."""
    old = _SENTENCE.split(view.strip())
    heads = [_head(sentence, grammar) for sentence in old]
    new = _SENTENCE.split(frame.strip())
    for at, sentence in enumerate(new):
        head = _head(sentence, grammar)
        if head is not None and head in heads:
            return " ".join([*new[:at], *old[heads.index(head) :]])
    return None


def _head(sentence: str, grammar: Grammar) -> tuple[str, ...] | None:
    """What sort of sentence it is, and about what."""
    things = grammar.things(sentence)
    return (things[0], *grammar.outline(sentence).split()[:_HEAD]) if things else None


class ContentsModel:
    """Whether a thing is in the next view of a place after an action named them both: counted, by slot."""

    def __init__(self, counts: dict[str, tuple[int, int]]) -> None:
        self.counts = counts

    @classmethod
    def of(cls, grammar: Grammar, episodes: Sequence[Trajectory]) -> "ContentsModel":
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for episode in episodes:
            seen = History(grammar, episode.task_id, episode.goal, episode.steps[0].observation)
            answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
            for step, answer in zip(episode.steps, answers, strict=True):
                shown = listing(answer, grammar)
                things = grammar.parse(step.action).things
                if shown is not None and len(things) == 1:
                    for thing, here in seen.handled(things[0]):
                        if here:
                            counts[seen.status[thing]][thing in shown.things] += 1
                seen.advance(step.action, answer, step.valid)
        return cls({slot: (absent, present) for slot, (absent, present) in counts.items()})

    def changes(self, history: History, place: str, since: int) -> tuple[list[str], list[str]]:
        """What left `place` and what came to it by the actions from step `since` on."""
        gone: list[str] = []
        there: list[str] = []
        for thing, here in history.handled(place, since):
            absent, present = self.counts.get(history.status[thing], (1, 0)) if here else (1, 0)
            (there if present > absent else gone).append(thing)
        return gone, there

    def contents(self, history: History, place: str) -> frozenset[str]:
        """What is at `place` by its last view and by what was done since."""
        views = history.views(place)
        if not views:
            return frozenset()
        shown = listing(history.observations[views[0]], history.grammar)
        gone, there = self.changes(history, place, views[0])
        return frozenset(shown.things if shown else ()) - set(gone) | set(there)


def recalled(frames: Iterable[str], history: History, place: str, contents_model: ContentsModel) -> list[str]:
    """Answers that repeat this episode's last view of `place` inside each of `frames`, where one fits."""
    views = []
    for at in history.views(place):
        gone, there = contents_model.changes(history, place, at)
        views.append(relisted(history.observations[at], history.grammar, gone, there))
    texts = []
    for frame in frames:
        fits = (spliced(frame, view, history.grammar) for view in views)
        texts.append(next((text for text in fits if text is not None), None))
    return list(dict.fromkeys(text for text in texts if text is not None))


class TransitionIndex:
    """All transitions of a log, indexed by what one looks for."""

    def __init__(self, grammar: Grammar, transitions: Sequence[Transition], contents_model: ContentsModel) -> None:
        self.grammar = grammar
        self.contents_model = contents_model
        self.transitions = list(transitions)
        self._touched = [
            tuple(status for thing, status in zip(tr.things, tr.statuses, strict=True) if _handled(thing, status))
            for tr in self.transitions
        ]
        self._places: dict[str, dict[str, dict[str, set[int]]]] = defaultdict(lambda: defaultdict(dict))
        self._index: dict[tuple[object, ...], list[int]] = defaultdict(list)
        # a fixed shuffle: the first few of any list are a fair sample of it
        for transition in sorted(self.transitions, key=lambda tr: stable_hash(f"{tr.episode}/{tr.step}")):
            for key in _keys(transition, transition.states, grammar.goal_roles(transition.goal)):
                self._index[key].append(transition.index)
            for thing, status in zip(transition.things, transition.statuses, strict=True):
                if not status and thing not in transition.command.things:
                    actions = self._places[transition.task][thing]
                    actions.setdefault(transition.action, set()).add(transition.episode)
        # Policies and rollouts meet the same tasks over and over: what depends on little is worked out once.
        self._places_apart_from = functools.lru_cache(_MEMO >> 7)(self._find_places)
        self._renamed = functools.lru_cache(_MEMO)(self._carry)
        self._table = functools.lru_cache(_MEMO >> 7)(self._listed)
        self.episodes = np.array([tr.episode for tr in self.transitions], dtype=np.int64)

    @classmethod
    def of(cls, grammar: Grammar, episodes: Sequence[Trajectory]) -> "TransitionIndex":
        transitions: list[Transition] = []
        for number, episode in enumerate(episodes):
            for transition in replay(grammar, episode, number):
                transitions.append(_numbered(transition, len(transitions)))
        return cls(grammar, transitions, ContentsModel.of(grammar, episodes))

    def known_places(self, history: History) -> dict[str, set[str]]:
        """Thing -> the actions whose answers named it, untouched, in other logged episodes of this task."""
        return self._places_apart_from(history.task, history.episode)

    def _find_places(self, task: str, episode: int) -> dict[str, set[str]]:
        facts, own = self._places.get(task, {}), {episode}
        return {
            thing: actions
            for thing, where in facts.items()
            if (actions := {action for action, episodes in where.items() if episodes - own})
        }

    def candidates(self, history: History, action: str) -> list[CandidateAnswer]:
        """Answers the world might give to `action` now, nearest first."""
        command = self.grammar.parse(action)
        candidates = [CandidateAnswer(OWN, text, None) for text in history.answers(action)[: LIMITS[OWN]]]
        taken: set[int] = set()
        states, roles = history.states(command), self.grammar.goal_roles(history.goal)
        seen_here = False
        for near, keys in _questions(history.task, action, command, states, roles):
            room = _ENOUGH if seen_here and near != REFUSED else LIMITS[near]
            for index in itertools.chain.from_iterable(self._index.get(key, ()) for key in keys):
                if not room:
                    break
                source = self.transitions[index]
                if index not in taken and source.episode != history.episode:
                    taken.add(index)
                    room -= 1
                    seen_here = seen_here or (near == TASK and source.states == states)
                    candidates.append(self._carried(near, source, history, command))
        return [*self._recalled(candidates, history, command), *candidates]

    def like(self, action: str, episode: int = -1) -> npt.NDArray[np.int64]:
        """The transitions of this very action, else of its template, else all; none of them of `episode`."""
        shape = self.grammar.parse(action).template
        key = next((key for key in ((SAME, action), (SHAPE, shape)) if self._index.get(key)), None)
        transitions: npt.NDArray[np.int64] = self._table(key)
        return np.compress(self.episodes[transitions] != episode, transitions)

    def _listed(self, key: tuple[object, ...] | None) -> npt.NDArray[np.int64]:
        return np.array(range(len(self.transitions)) if key is None else self._index[key], dtype=np.int64)

    def _recalled(
        self, candidates: Sequence[CandidateAnswer], history: History, command: Command
    ) -> Iterator[CandidateAnswer]:
        """What this episode last saw of the place the action is about, as the other candidates would put it."""
        if command.things:
            frames = dict.fromkeys(c.text for c in candidates if c.near not in (OWN, REFUSED))
            texts = recalled(itertools.islice(frames, _FRAMES), history, command.things[-1], self.contents_model)
            yield from (CandidateAnswer(VIEW, text, None) for text in texts)

    def _carried(self, near: str, source: Transition, history: History, command: Command) -> CandidateAnswer:
        """The source's answer in this episode's names."""
        touched = tuple([history.counterpart(status) for status in self._touched[source.index]])
        return self._renamed(near, source.index, command.things, history.goal, touched)

    def _carry(
        self, near: str, index: int, things: tuple[str, ...], ours: str, touched: tuple[str | None, ...]
    ) -> CandidateAnswer:
        """`touched` are this episode's counterparts of the source's things that had been handled there."""
        source = self.transitions[index]
        if near in (TASK, REFUSED):
            return CandidateAnswer(near, source.answer, source)
        names = dict(zip(source.command.things, things, strict=False))
        roles, wanted = self.grammar.goal_roles(source.goal), self.grammar.goal_roles(ours)
        kinds = {roles[role]: wanted[role] for role in roles.keys() & wanted.keys()}
        counterparts, aligned = iter(touched), True
        for thing, status in zip(source.things, source.statuses, strict=True):
            handled = _handled(thing, status)
            mine = next(counterparts) if handled else None
            if thing in names:
                continue
            if mine is not None:
                names[thing] = mine
            elif kind(thing) in kinds:
                names[thing] = thing.replace(kind(thing), kinds[kind(thing)])
            aligned = aligned and (mine is not None or not handled)
        goal = {source.goal: ours} if source.goal in source.answer else {}
        text = renamed(renamed(source.answer, names), goal)
        return CandidateAnswer(near, text, source, tuple(names.items()), aligned)


def _handled(thing: str, status: str) -> bool:
    """Whether a thing had a history that its counterpart must share: "cup 2" may, "back to search" never does."""
    return bool(status) and kind(thing) != thing


def replay(grammar: Grammar, episode: Trajectory, number: int) -> Iterator[Transition]:
    """The transitions of one logged episode, each seen from the history it had."""
    steps = episode.steps
    history = History(grammar, episode.task_id, episode.goal, steps[0].observation, number)
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
            states=history.states(command),
            answer=answer,
            things=things,
            statuses=tuple(history.status.get(thing, "") for thing in things),
            valid=step.valid,
            reward=step.reward,
            ended=last and episode.terminated,
            admissible=None if last else steps[at + 1].admissible,
        )
        history.advance(step.action, answer, step.valid)


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
