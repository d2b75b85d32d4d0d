"""Sessions with an OpenEnv server: the official client's connections, on one event loop for all episodes of a world.

The server keeps one environment for each connection. A session that has played an episode plays the next one, so that a
run opens as many as it plays at once. The client would quietly open a new connection after a lost one and step in an
environment that nobody has reset: here that loses the episode.
"""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from worldline.envs.worker_process import EpisodeLostError
from worldline.types import InputError

_PAUSE = 0.5
"""Seconds between two attempts to reach a server."""
_REFUSED = "(code: VALIDATION_ERROR)"
_FULL = "(code: CAPACITY_REACHED)"


class ActionRefusedError(Exception):
    """The server does not take such an action; the episode stands where it was."""


class ServerSessions:
    """The connections of one world, made when they are needed and kept for the next episode."""

    def __init__(self, name: str, url: str, *, timeout: float, patience: float) -> None:
        from openenv.core import GenericEnvClient as Client

        self.name, self.patience, self.timeout = name, patience, timeout
        self._client: Callable[[], Any] = functools.partial(Client, base_url=url, message_timeout_s=timeout)
        self._idle: list[ServerSession] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name=name).start()

    def take(self) -> "ServerSession":
        """One that no episode uses."""
        return self._idle.pop() if self._idle else ServerSession(self, self._client())

    def give_back(self, session: "ServerSession") -> None:
        """Its episode is over, or nobody wants to know how it ends."""
        if session.whole:
            self._idle.append(session)
        else:
            self.submit(session.close())

    def discard_idle(self) -> None:
        """After a loss: the others may lead to the same dead server."""
        idle, self._idle = self._idle, []
        for session in idle:
            self.submit(session.close())

    def close(self) -> None:
        """Nobody plays here any more: connections are closed, and the event loop ends. Does not wait for it."""
        idle, self._idle = self._idle, []

        async def end() -> None:
            await asyncio.gather(*(session.close() for session in idle), return_exceptions=True)
            self._loop.stop()

        self.submit(end())

    def submit(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class ServerSession:
    """One connection, and after `reset` one episode on it. `whole`: nothing on it was lost or is under way."""

    def __init__(self, sessions: ServerSessions, client: Any) -> None:
        self._sessions, self._client = sessions, client
        self._socket: Any = None
        self.whole = True

    def reset(self, arguments: dict[str, Any]) -> "Future[Any]":
        """Begin an episode; `wait` gives its opening."""
        self.whole = False
        return self._sessions.submit(self._reset(arguments))

    def send(self, action: dict[str, Any]) -> "Future[Any]":
        """Start on `action`; `wait` gives the result."""
        self.whole = False
        return self._sessions.submit(self._step(action))

    def wait(self, answer: "Future[Any]") -> Any:
        """The result, or an EpisodeLostError that names the server and what happened."""
        try:
            result = answer.result()
        except ActionRefusedError:
            self.whole = True
            raise
        except (InputError, EpisodeLostError):
            raise
        except Exception as error:  # of the client, the socket or the server's environment: each costs this episode
            self._sessions.discard_idle()
            raise EpisodeLostError(self._line(error)) from error
        self.whole = True
        return result

    async def close(self) -> None:
        await self._client.close()

    async def _reset(self, arguments: dict[str, Any]) -> Any:
        """A new episode. A server that cannot be reached may be starting again: it is given some time."""
        deadline = time.monotonic() + self._sessions.patience
        while True:
            try:
                result = await self._client.reset(**arguments)
                break
            except ConnectionError as error:
                if time.monotonic() > deadline:
                    raise InputError(
                        f"{self._sessions.name}: no server could be reached there for {self._sessions.patience:g} s "
                        f"({_cause(error)}): start it; finished episodes are kept, --resume goes on"
                    ) from None
                await asyncio.sleep(_PAUSE)
            except RuntimeError as error:
                if _FULL in str(error):
                    raise InputError(
                        f"{self._sessions.name}: the server has no session left ({error}): play fewer episodes at "
                        "once with --batch-size, or let it keep more"
                    ) from None
                raise
        self._socket = self._client._ws
        return result

    async def _step(self, action: dict[str, Any]) -> Any:
        try:
            self._check()
            result = await self._client.step(action)
        except RuntimeError as error:
            if _REFUSED in str(error):
                raise ActionRefusedError(str(error)) from None
            raise
        self._check()
        return result

    def _check(self) -> None:
        """The connection is still the one on which the episode began."""
        if self._socket is None or self._client._ws is not self._socket:
            self._sessions.discard_idle()
            raise EpisodeLostError(f"{self._sessions.name}: the connection to the server was lost in the episode")

    def _line(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"{self._sessions.name}: the server gave no answer within {self._sessions.timeout:g} s"
        return f"{self._sessions.name}: the server failed in the episode: {_cause(error)}"


def _cause(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
