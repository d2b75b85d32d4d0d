"""One POST against real servers on this machine: its time is a total, and it leaves its origin under no status."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import worldline.post as post_module
from worldline.post import RedirectError, Reply, TooLongError, post

LIMIT = 0.4
Script = Callable[[socket.socket, bytes], None]
Start = Callable[[Script], str]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Servers that read one request and then do what their script says to the connection."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    listeners: list[socket.socket] = []

    def serve(listener: socket.socket, script: Script) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(2)
                    script(connection, _request(connection))

    def start(script: Script) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, script), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _request(connection: socket.socket) -> bytes:
    """Head and body of one request."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = read.partition(b"\r\n\r\n")
    size = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < size:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def dribbling(at_once: bytes, slowly: bytes) -> Script:
    def script(connection: socket.socket, request: bytes) -> None:
        connection.sendall(at_once)
        for _ in range(1000):
            for byte in slowly:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)

    return script


@pytest.mark.parametrize(
    ("at_once", "slowly"),
    [
        (b"", b"HTTP/1.1 200 OK"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 307 Moved\r\nLocation: /b\r\n", b"X-A: b\r\n"),
        (b"HTTP/1.1 500 Oh\r\n", b"X-A: b\r\n"),
    ],
)
def test_a_server_that_dribbles_is_left_in_time(start: Start, at_once: bytes, slowly: bytes) -> None:
    url, begun = start(dribbling(at_once, slowly)), time.monotonic()
    with pytest.raises(TimeoutError):
        post(url, b"{}", {}, LIMIT)
    assert LIMIT <= time.monotonic() - begun < LIMIT + 1


def test_of_an_error_that_dribbles_its_status_is_kept(start: Start) -> None:
    url = start(dribbling(b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 9000\r\n\r\nfull", b"."))
    begun = time.monotonic()
    reply = post(url, b"{}", {}, LIMIT)
    assert (reply.status, reply.body[:4], reply.retry_after) == (503, b"full", "3")
    assert time.monotonic() - begun < LIMIT + 1


def test_a_server_that_reads_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            post(f"http://127.0.0.1:{deaf.getsockname()[1]}", b"x" * 2**24, {}, LIMIT)
        assert time.monotonic() - begun < LIMIT + 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_origin_is_the_same_request_again(start: Start, status: int) -> None:
    requests: list[bytes] = []

    def script(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        moved = b"HTTP/1.1 %d Moved\r\nLocation: /b?c=d\r\nContent-Length: 0\r\n\r\n" % status
        connection.sendall(OK if request.startswith(b"POST /b?c=d ") else moved)

    assert post(f"{start(script)}/a", b"the body", {"Authorization": "Bearer k"}, 5) == Reply(200, b"ok", "")
    assert len(requests) == 2
    assert all(b"Authorization: Bearer k" in request and request.endswith(b"the body") for request in requests)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_no_redirect_to_another_origin_is_followed(start: Start, status: int) -> None:
    received: list[bytes] = []

    def thief(connection: socket.socket, request: bytes) -> None:
        received.append(request)
        connection.sendall(OK)

    other = start(thief)
    where = f"{other.replace('//', '//user:pw@')}/v1?k=SECRET".encode()
    url = start(lambda c, r: c.sendall(b"HTTP/1.1 %d Moved\r\nLocation: %s\r\n\r\n" % (status, where)))
    with pytest.raises(RedirectError) as error:
        post(f"{url}/v1?k=SECRET", b"{}", {"Authorization": "Bearer SECRET"}, 5)
    assert str(error.value) == f"redirects to {other}/v1, another origin: give that URL if you trust it"
    assert received == []


@pytest.mark.parametrize(
    "where", ["https://127.0.0.1/", "ftp://127.0.0.1/x", "//elsewhere/x", "http://[", "http://127.0.0.1:x/"]
)
def test_schemes_and_ports_belong_to_the_origin(start: Start, where: str) -> None:
    url = start(lambda c, r: c.sendall(b"HTTP/1.1 307 Moved\r\nLocation: %s\r\n\r\n" % where.encode()))
    with pytest.raises(RedirectError, match=r"another origin|no URL"):
        post(url, b"{}", {}, 5)


def test_redirects_end(start: Start) -> None:
    requests: list[bytes] = []

    def script(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(b"HTTP/1.1 308 Moved\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")

    with pytest.raises(RedirectError, match="more than 5 times"):
        post(start(script), b"{}", {}, 5)
    assert len(requests) == 6


def test_an_endless_answer_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "_MOST_BYTES", 2**20)

    def script(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 2**16)

    with pytest.raises(TooLongError, match="over 1 MB"):
        post(start(script), b"{}", {}, 5)


def test_the_proxy_of_the_environment_is_used(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    def proxy(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(OK)

    monkeypatch.setenv("http_proxy", start(proxy))
    monkeypatch.setenv("no_proxy", "")
    assert post("http://models.example/v1", b"{}", {}, 5).body == b"ok"
    assert requests[0].startswith(b"POST http://models.example/v1 HTTP/1.1\r\n")
