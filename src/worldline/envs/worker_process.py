"""A worker process that hosts episodes of a world, and the requests under way to it.

Requests are answered in order, so several can be sent ahead and processes work at the same time. A process that dies
or does not answer is replaced; of the pending requests, the first failed and the others are sent again.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from worldline.types import Environment, Info, InputError, LazyActions, World, WorldlineError
from worldline.user_module import error_text

START_TIMEOUT = 600.0
"""Seconds a process may take to load its world."""
_MAX_UNDER_WAY = 16_384
"""Characters of requests sent ahead to one process: what fits its pipe with room to spare."""


class EpisodeLostError(WorldlineError):
    """The process of this episode crashed or hung, or its environment raised; the others go on."""


class Interrupted(Exception):  # noqa: N818 - no error: the request has to be made again
    """The process was replaced because of another episode before it came to this request."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make the same world in another process: `load` is called with the rest."""

    load: Callable[[str, Path | None, Mapping[str, Any]], World]
    """`worldline.envs.load`: given, so that worker code does not import the package that starts it."""
    name: str
    data: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def world(self) -> World:
        return self.load(self.name, self.data, self.options)


class WorkerProcess:
    """A process and the requests under way to it. `generation` counts how often it was replaced."""

    def __init__(self, recipe: Recipe, timeout: float) -> None:
        self._recipe, self._timeout = recipe, timeout
        self.generation = 0
        self.hosted = 0
        self._admitted = 0
        self._dismissed: list[int] = []
        self._sent = 0
        self._start()

    def admit(self) -> int:
        self._admitted += 1
        self.hosted += 1
        return self._admitted

    def dismiss(self, episode: int) -> None:
        self.hosted -= 1
        self._dismissed.append(episode)

    def has_room(self, action: str) -> bool:
        return sum(self._pending.values()) + len(action) < _MAX_UNDER_WAY

    def send(self, episode: int, verb: str, *arguments: Any) -> int:
        """A ticket for `answer`."""
        size = sum(len(argument) for argument in arguments if isinstance(argument, str))
        generation = self.generation
        while self._pending and sum(self._pending.values()) + size > _MAX_UNDER_WAY:
            self._receive()
        if generation != self.generation:
            raise Interrupted
        self._greet()
        self._sent += 1
        self._pending[self._sent] = size
        dismissed, self._dismissed = self._dismissed, []
        with contextlib.suppress(OSError):  # the process is dead: `answer` will raise
            self._connection.send((episode, verb, arguments, dismissed))
        return self._sent

    def answer(self, ticket: int) -> Any:
        while ticket not in self._answers:
            self._receive()
        kind, value = self._answers.pop(ticket)
        if kind == "interrupted":
            raise Interrupted
        if kind == "value":
            return value
        raise {"lost": EpisodeLostError, "input": InputError, "failed": WorldlineError}[kind](value)

    def host(self, recipe: Recipe) -> None:
        """Host another world from now on. Episodes of the one before are gone."""
        self._greet()
        self._recipe = recipe
        try:
            self._connection.send((0, "host", (recipe,), []))
        except OSError:  # it died meanwhile
            self.stop()
            self._start()
            self.generation += 1
        self._greeted = False

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._recipe), daemon=True)
        self._process.start()
        theirs.close()
        self._greeted = False
        self._pending: dict[int, int] = {}
        self._answers: dict[int, tuple[str, Any]] = {}

    def _greet(self) -> None:
        """Wait until the process has loaded the world, once."""
        if self._greeted:
            return
        try:
            kind, value = self._take(START_TIMEOUT)
        except EpisodeLostError as error:
            kind, value = "failed", str(error)
        if kind != "value":
            self.stop()
            raise WorldlineError(f"{self._recipe.name}: a worker process could not load it: {value}")
        self._greeted = True

    def _receive(self) -> None:
        """Take the next answer; if none comes, its request failed and the others must be sent again."""
        first, *others = self._pending
        try:
            self._answers[first] = self._take(self._timeout)
            del self._pending[first]
        except EpisodeLostError as error:
            answered = self._answers
            self.stop()
            self._start()
            self.generation += 1
            self._answers = {**answered, first: ("lost", str(error)), **dict.fromkeys(others, ("interrupted", None))}

    def _take(self, timeout: float) -> tuple[str, Any]:
        try:
            if self._connection.poll(timeout):
                message: tuple[str, Any] = self._connection.recv()
                return message
            fault = f"gave no answer within {timeout:g} s"
        except (EOFError, OSError):
            self._process.join(1)
            fault = f"died (exit code {self._process.exitcode})"
        raise EpisodeLostError(f"the worker process {fault} and was replaced")


def _serve(connection: Connection, recipe: Recipe) -> None:
    """The life of a worker process: load the world, then answer requests until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    os.dup2(2, 1)  # what an environment prints must not end up among the results
    world = _loaded(connection, recipe)
    episodes: dict[int, _Hosted] = {}
    while world is not None:
        try:
            episode, verb, arguments, dismissed = connection.recv()
        except EOFError:
            return
        if verb == "host":
            episodes.clear()
            world = _loaded(connection, *arguments)
            continue
        for gone in dismissed:
            episodes.pop(gone, None)
        try:
            connection.send(("value", _answer(world, episodes, episode, verb, arguments)))
        except (Exception, SystemExit) as error:
            connection.send(_failure(error))


def _loaded(connection: Connection, recipe: Recipe) -> World | None:
    """The world, once the other side has heard of it; None where it could not be loaded."""
    try:
        world = recipe.world()
    except (Exception, SystemExit) as error:
        connection.send(_failure(error))
        return None
    connection.send(("value", None))
    return world


@dataclass(slots=True)
class _Hosted:
    """An episode in its process, with the list it showed last."""

    environment: Environment
    admissible: Sequence[str] | None = None

    def shown(self, info: Info) -> tuple[Info, bool]:
        """What is sent back, and whether the list stays here until it is requested."""
        self.admissible = info.get("admissible")
        lazy = isinstance(self.admissible, LazyActions) and not self.admissible.computed
        listed = None if lazy or self.admissible is None else tuple(self.admissible)
        return {**info, "admissible": listed}, lazy


def _answer(world: World, episodes: dict[int, _Hosted], episode: int, verb: str, arguments: tuple[Any, ...]) -> Any:
    if verb == "attribute":
        return getattr(world, *arguments)
    if verb == "make":
        episodes[episode] = _Hosted(world.make())
        return None
    hosted = episodes[episode]
    if verb == "reset":
        seed, task = arguments
        observation, info = hosted.environment.reset(seed=seed, task=task)
        return observation, *hosted.shown(info)
    if verb == "step":
        *result, info = hosted.environment.step(*arguments)
        return *result, *hosted.shown(info)
    if verb == "clone":
        episodes[arguments[0]] = _Hosted(hosted.environment.clone(), hosted.admissible)
        return None
    return tuple(hosted.admissible or ())


def _failure(error: Exception | SystemExit) -> tuple[str, str]:
    if isinstance(error, InputError):
        return "input", str(error)
    if isinstance(error, WorldlineError):
        return "failed", str(error)
    return "lost", f"the environment raised {error_text(error)}"
