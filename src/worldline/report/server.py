"""`worldline view`: a small server, for this machine only, of what some folders hold.

Pages: `/` lists, `/report?at=N` makes a report on the fly (`/report`: of everything), `/episodes?at=N` pages through a
log. A log is named by its place in the list (`at`) or by its path (`log`, which a link keeps); `policy`, `success`,
`text` and `id` in a link choose filter and episode. JSON: `/api/episodes?..&start=..&limit=..`,
`/api/episode?..&row=..` (or `id`), `/api/same-task?..&row=..` and `/api/state?..`, by which a page sees that the log
has grown.

A connection that sends nothing is dropped, and only so many are answered at once: the next ones wait their turn.
"""

import contextlib
import errno
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from worldline import __version__
from worldline.files import finite
from worldline.report.episodes import MOST_PER_PAGE, EpisodeIndex, Query, as_shown
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
FRESH = 120.0
"""Seconds after its last metrics for which a training counts as running."""
REFRESH = 10
"""Seconds after which the page of a running training loads itself again."""
MOST_ALIKE = 50
"""Episodes of one task that are offered to be set beside each other."""
_MOST_DIGITS = 15


class Shelf:
    """What is shown: the sources under some paths, searched anew for every list, and the logs opened so far."""

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

    def place(self, path: str) -> int:
        """Where in the list the log at `path` is; nothing outside the list can be named."""
        for sources in (self.sources, self.look()):
            for at, source in enumerate(sources):
                if source.kind == "log" and str(source.path) == path:
                    return at
        raise InputError(f"there is no log {path[:200]}: go back to the list")

    def logs(self) -> list[int]:
        return [at for at, source in enumerate(self.sources) if source.kind == "log"]

    def log(self, at: int) -> EpisodeIndex:
        """The index of a log, made at the first request and when the log has grown."""
        source = self.source(at)
        if source.kind != "log":
            raise InputError(f"{source.path}: is no log")
        with self._opening:
            index = self._logs.get(source.path)
            if index is None or index.stale:
                self._logs[source.path] = index = EpisodeIndex(source.path)
        return index

    def same_task(self, at: int, row: int) -> list[dict[str, Any]]:
        """The episodes of this row's task in every log that is listed: other policies, and imagined ones."""
        index = self.log(at)
        if row >= len(index.rows):
            raise InputError(f"{index.path}: has no row {row}")
        env, task_id = index.rows[row]["env"], index.rows[row]["task_id"]
        others: list[dict[str, Any]] = []
        for other in self.logs():
            own = self.log(other)
            others += [{**one, "log": str(own.path)} for one in own.same_task(env, task_id)][: MOST_ALIKE - len(others)]
        return others


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


Parameters = dict[str, str]
"""Those of a request, by name."""


def _pages(shelf: Shelf) -> dict[str, Callable[[Parameters], str | dict[str, Any]]]:
    """What is answered at each path: HTML as text, JSON as a dict."""

    def listing(parameters: Parameters) -> str:
        return fill("list.html", sources=shelf.look(), version=__version__, refresh=REFRESH if _running(shelf) else 0)

    def report(parameters: Parameters) -> str:
        if "at" not in parameters:
            sources = shelf.look()
            return render(compose(sources), ", ".join(map(str, shelf.paths)), REFRESH if _running(shelf) else 0)
        source = shelf.source(_whole(parameters, "at"))
        refresh = REFRESH if is_running(source) else 0
        return render(compose([source]), source.folder.resolve().name, refresh)

    def browser(parameters: Parameters) -> str:
        at = _at(parameters)
        return fill("episodes.html", at=at, path=shelf.log(at).path)

    def episodes(parameters: Parameters) -> dict[str, Any]:
        limit = min(_whole(parameters, "limit", 50), MOST_PER_PAGE) or 1
        words = {name: parameters.get(name, "") for name in ("policy", "success", "text")}
        return shelf.log(_at(parameters)).page(Query(start=_whole(parameters, "start", 0), limit=limit, **words))

    def episode(parameters: Parameters) -> dict[str, Any]:
        index = shelf.log(_at(parameters))
        row = index.row_of(parameters["id"]) if "id" in parameters else _whole(parameters, "row")
        return as_shown(index.episode(row)) | {"row": row, "log": str(index.path)}

    def same_task(parameters: Parameters) -> dict[str, Any]:
        return {"episodes": shelf.same_task(_at(parameters), _whole(parameters, "row"))}

    def state(parameters: Parameters) -> dict[str, Any]:
        return {"total": len(shelf.log(_at(parameters)).rows)}

    def _at(parameters: Parameters) -> int:
        return shelf.place(parameters["log"]) if "log" in parameters else _whole(parameters, "at")

    return {
        "/": listing,
        "/report": report,
        "/episodes": browser,
        "/api/episodes": episodes,
        "/api/episode": episode,
        "/api/same-task": same_task,
        "/api/state": state,
    }


def is_running(source: ReportSource) -> bool:
    """Whether a run wrote its metrics a moment ago, so that its page is worth loading again."""
    metrics = source.folder / "metrics.jsonl"
    return source.kind == "training" and metrics.is_file() and time.time() - metrics.stat().st_mtime < FRESH


def _running(shelf: Shelf) -> bool:
    return any(map(is_running, shelf.sources))


def _whole(parameters: Parameters, name: str, default: int | None = None) -> int:
    text = parameters.get(name, "" if default is None else str(default))
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
    pages: dict[str, Callable[[Parameters], str | dict[str, Any]]]

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if host not in (HOST, "localhost"):  # a page elsewhere must not read logs through a name that points here
            return self._answer(403, _problem(f"this server answers at {HOST} only"))
        path, _, query = self.path.partition("?")
        if path not in self.pages:
            return self._answer(404, _problem(f"there is no page {path}"))
        try:
            parameters = {name: values[-1] for name, values in parse_qs(query).items()}
            self._answer(200, self.pages[path](parameters), scripts=path == "/episodes")
        except (WorldlineError, OSError, MemoryError) as error:
            line = str(error) or type(error).__name__
            status = 400 if isinstance(error, WorldlineError) else 500
            self._answer(status, {"error": line} if path.startswith("/api/") else _problem(line))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request that we know, answered like everything else."""
        self.request_version = "HTTP/1.0"  # a request that was not read to its end has none
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
