"""One POST with a total time limit: connecting, headers, body and redirects together, however slowly a server sends.

A redirect is followed with the same method and body, and within its origin only: what a request carries is for nobody
else. Proxies are those of the environment, as everywhere in Python. One thing has a limit of its own: the system's
resolver, which looks up the host's name.
"""

import functools
import http.client
import io
import re
import socket
import time
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

_MOST_REDIRECTS = 5
_MOST_BYTES = 2**24
_MOST_ERROR_BYTES = 4096
_AT_ONCE = 2**14
"""Bytes sent, or read, between two looks at the clock."""


class RedirectError(Exception):
    """A redirect that is not followed; the message says where it points."""


class TooLongError(Exception):
    """More bytes than any answer that we ask for has."""


def public(url: str) -> str:
    """The URL, or a text that ends with one, without user, password, query and fragment."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url, maxsplit=1)[0])


@dataclass(frozen=True)
class Reply:
    """What a server answered. Of an error's body only the beginning is here."""

    status: int
    body: bytes
    retry_after: str


def post(url: str, body: bytes, headers: dict[str, str], seconds: float) -> Reply:
    """The answer to one request. OSError or HTTPException where none came; TimeoutError where it took too long."""
    deadline = time.monotonic() + seconds
    opener = urllib.request.OpenerDirector()  # without the handler that follows redirects wherever they lead
    for handler in (urllib.request.ProxyHandler(), _DeadlineHandler(deadline)):
        opener.add_handler(handler)
    for _ in range(_MOST_REDIRECTS + 1):
        try:
            response = opener.open(urllib.request.Request(url, body, headers, method="POST"), timeout=seconds)
        except URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from None
        with response:
            target = response.headers.get("Location") if 300 <= response.status < 400 else None
            if target is None:
                return Reply(response.status, _body(response), response.headers.get("Retry-After") or "")
            url = _within_origin(url, target)
    raise RedirectError(f"redirects more than {_MOST_REDIRECTS} times")


def _body(response: http.client.HTTPResponse) -> bytes:
    """The whole body; of an error's, what came of its beginning."""
    good, read = response.status < 400, bytearray()
    try:
        while (good or len(read) < _MOST_ERROR_BYTES) and (part := response.read1(_AT_ONCE)):
            read += part
            if len(read) > _MOST_BYTES:
                raise TooLongError(f"the answer is over {_MOST_BYTES // 2**20} MB")
    except (OSError, http.client.HTTPException):
        if good:
            raise
    return bytes(read)


def _within_origin(url: str, location: str) -> str:
    """Where a redirect leads; RedirectError if that is another scheme, host or port."""
    try:
        here, there = urlsplit(url), urlsplit(urljoin(url, location.strip()))
        same = _origin(here) == _origin(there)
    except ValueError:
        raise RedirectError("redirects to something that is no URL") from None
    if not same:
        raise RedirectError(f"redirects to {public(there.geturl())}, another origin: give that URL if you trust it")
    path, query = (quote(part, safe="/%:=&?~+!$,;'@()*[]") for part in (there.path or "/", there.query))
    return urlunsplit((here.scheme, here.netloc, path, query, ""))


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _left(deadline: float) -> float:
    """Seconds until the deadline; TimeoutError where there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _DeadlineHandler(urllib.request.AbstractHTTPHandler):
    """Opens http: and https: with connections that know the deadline."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_Connection, deadline=self._deadline), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_SecureConnection, deadline=self._deadline), request)

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


class _Connection(http.client.HTTPConnection):
    """Each wait of the socket ends at the deadline at the latest."""

    def __init__(self, *address: Any, deadline: float, **settings: Any) -> None:
        super().__init__(*address, **settings)
        self._deadline = deadline
        self._create_connection = self._connected
        self.response_class = functools.partial(_response, deadline)  # type: ignore[assignment]  # makes one

    def _connected(self, address: tuple[str, int], *_: Any) -> socket.socket:
        failure: OSError = OSError("the host has no address")
        for family, kind, protocol, _name, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(_left(self._deadline))
                connection.connect(place)
                connection.settimeout(_left(self._deadline))  # for the handshake of TLS
                return connection
            except OSError as error:
                connection.close()
                failure = error
        raise failure

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), _AT_ONCE):
            self.sock.settimeout(_left(self._deadline))
            super().send(data[start : start + _AT_ONCE])


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Stream(io.RawIOBase):
    """What a socket receives until the deadline, in the shape in which HTTPResponse asks a socket for it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._received = connection.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left(self._deadline))
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


def _response(deadline: float, connection: socket.socket, **how: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Stream(connection, deadline), **how)  # type: ignore[arg-type]  # like a socket
