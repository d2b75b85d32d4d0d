"""`worldline view`: a small server, for this machine only, of what some folders hold.

Pages: `/` lists, `/report?at=N` makes a report on the fly (`/report`: of everything), `/episodes?at=N` pages through a
log. JSON: `/api/episodes?at=N&start=..&limit=..&policy=..&success=..&text=..` and `/api/episode?at=N&row=..`.

A connection that sends nothing is dropped, and only so many are answered at once: the next ones wait their turn.
"""

import contextlib
import errno
import json
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from worldline import __version__
from worldline.files import finite
from worldline.report.episodes import MOST_PER_PAGE, EpisodeIndex, Query
from worldline.report.page import compose, fill, render
from worldline.report.source import ReportSource, find
from worldline.types import InputError, WorldlineError

HOST = "127.0.0.1"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; script-src "
"""No page may load anything, and only the one that pages through episodes may run the script it came with."""

AT_ONCE = 16
"""Connections that are answered at the same time."""
PATIENCE = 10.0
"""Seconds for which a connection may be silent, or wait for its turn."""
_MOST_DIGITS = 15


class Shelf:
    """What is shown: the sources under some paths, found anew for every list, and the logs opened so far."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self._logs: dict[Path, EpisodeIndex] = {}
        self._opening = threading.Lock()
        self.sources = self.look()

    def look(self) -> list[ReportSource]:
        """Known sources keep their numbers; new ones come after."""
        sources = [source for path in self.paths for source in find(path)]
        before = getattr(self, "sources", [])
        self.sources = [*before, *dict.fromkeys(source for source in sources if source not in before)]
        return self.sources

    def source(self, at: int) -> ReportSource:
        if not 0 <= at < len(self.sources):
            raise InputError(f"there is no entry {at}: go back to the list")
        return self.sources[at]

    def log(self, at: int) -> EpisodeIndex:
        """The index of a log, made when it is first asked for and when the log has grown."""
        source = self.source(at)
        if source.kind != "log":
            raise InputError(f"{source.path}: is no log")
        with self._opening:
            index = self._logs.get(source.path)
            if index is None or index.stale:
                self._logs[source.path] = index = EpisodeIndex(source.path)
        return index


def serve(
    paths: Sequence[Path], port: int, *, at_once: int = AT_ONCE, patience: float = PATIENCE
) -> ThreadingHTTPServer:
    """A server that is bound but not yet serving; `port` 0 takes a free one."""
    shelf = Shelf(paths)

    class Handler(_ViewHandler):
        pages = _pages(shelf)
        timeout = patience

    try:
        return _Server(port, Handler, at_once, patience)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        how = f"--port {port + 1 if port < 65535 else 8765} chooses another, --port 0 a free one"
        reason = "is taken by another program" if error.errno == errno.EADDRINUSE else "needs more rights"
        raise InputError(f"--port {port}: {reason}: {how}") from None
    except OverflowError:
        raise InputError(f"--port {port}: must lie between 0 and 65535") from None


Ask = dict[str, str]


def _pages(shelf: Shelf) -> dict[str, Callable[[Ask], str | dict[str, Any]]]:
    """What is answered at each path: HTML as text, JSON as a dict."""

    def listing(ask: Ask) -> str:
        return fill("list.html", sources=shelf.look(), version=__version__)

    def report(ask: Ask) -> str:
        if "at" not in ask:
            return render(compose(shelf.look()), ", ".join(map(str, shelf.paths)))
        source = shelf.source(_whole(ask, "at"))
        return render(compose([source]), source.folder.resolve().name)

    def browser(ask: Ask) -> str:
        at = _whole(ask, "at")
        return fill("episodes.html", at=at, path=shelf.log(at).path)

    def episodes(ask: Ask) -> dict[str, Any]:
        limit = min(_whole(ask, "limit", 50), MOST_PER_PAGE) or 1
        words = {name: ask.get(name, "") for name in ("policy", "success", "text")}
        return shelf.log(_whole(ask, "at")).page(Query(start=_whole(ask, "start", 0), limit=limit, **words))

    def episode(ask: Ask) -> dict[str, Any]:
        trajectory = shelf.log(_whole(ask, "at")).episode(_whole(ask, "row"))
        tokens = {"token_ids", "token_logprobs", "prompt_ids"}
        return trajectory.model_dump(mode="json", exclude={"steps": {"__all__": tokens}}) | {
            "return": trajectory.episode_return
        }

    return {
        "/": listing,
        "/report": report,
        "/episodes": browser,
        "/api/episodes": episodes,
        "/api/episode": episode,
    }


def _whole(ask: Ask, name: str, default: int | None = None) -> int:
    text = ask.get(name, "" if default is None else str(default))
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise InputError(f"'{name}' must be a whole number of at most {_MOST_DIGITS} digits, got '{text[:40]}'")
    return int(text)


class _Server(ThreadingHTTPServer):
    """Answers so many connections at once; another waits, and is turned away if that takes too long."""

    request_queue_size = 64

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler], at_once: int, patience: float) -> None:
        super().__init__((HOST, port), handler)
        self._places, self._patience = threading.Semaphore(at_once), patience

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(timeout=self._patience):
            request.settimeout(self._patience)
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started, so none gives the place back
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no error; anything else is a bug and shows its traceback."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _ViewHandler(BaseHTTPRequestHandler):
    pages: dict[str, Callable[[Ask], str | dict[str, Any]]]

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if host not in (HOST, "localhost"):  # a page elsewhere must not read logs through a name that points here
            return self._answer(403, _problem(f"this server answers at {HOST} only"))
        path, _, query = self.path.partition("?")
        if path not in self.pages:
            return self._answer(404, _problem(f"there is no page {path}"))
        try:
            ask = {name: values[-1] for name, values in parse_qs(query).items()}
            self._answer(200, self.pages[path](ask), scripts=path == "/episodes")
        except (WorldlineError, OSError, MemoryError) as error:
            line = str(error) or type(error).__name__
            status = 400 if isinstance(error, WorldlineError) else 500
            self._answer(status, {"error": line} if path.startswith("/api/") else _problem(line))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request that we know, answered like everything else."""
        self.request_version = "HTTP/1.0"  # of a request that was not read to its end it is not known
        self._answer(int(code), _problem(message or explain or "not understood"))

    def _answer(self, status: int, content: str | dict[str, Any], *, scripts: bool = False) -> None:
        html = isinstance(content, str)
        text = content if isinstance(content, str) else json.dumps(finite(content))
        try:
            self.send_response(status)
            self.send_header("Content-Type", f"{'text/html' if html else 'application/json'}; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY + ("'unsafe-inline'" if scripts else "'none'"))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(text.encode("utf-8", "replace"))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # the reader has gone on

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the standard library
        """Nothing: the terminal is the user's."""


def _problem(line: str) -> str:
    return fill("problem.html", line=line)
