"""`worldline view`: every episode can be reached, filters mean what they say, nothing hostile gets through."""

import json
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from page_reader import PageReader
from report_material import episode, write_log

from worldline import store
from worldline.cli import main
from worldline.report.episodes import EpisodeIndex, Query
from worldline.report.server import serve

Get = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 episodes of two policies in shards of 20; every seventh speaks of a Kettle."""
    made = [
        episode(n, [True, False, None][n % 3], policy=f"p{n % 2}", observation=f"a {'Kettle' if n % 7 == 0 else 'cup'}")
        for n in range(150)
    ]
    return write_log(tmp_path_factory.mktemp("log"), made, flush_every=20)


@pytest.fixture
def own_log(log: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(log, tmp_path / "own"))


@pytest.fixture
def served() -> Iterator[Callable[[Path], Get]]:
    servers = []

    def start(path: Path) -> Get:
        server = serve([path], 0)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def get(where: str, host: str = "") -> tuple[int, str]:
            connection = HTTPConnection("127.0.0.1", server.server_port)
            connection.request("GET", where, headers={"Host": host} if host else {})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

        return get

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def walked(index: EpisodeIndex, **query: Any) -> list[str]:
    """The ids of all pages, one after the other."""
    ids: list[str] = []
    start: int | None = 0
    while start is not None:
        page = index.page(Query(start=start, **query))
        assert len(page["episodes"]) <= query.get("limit", 50)
        ids += [row["id"] for row in page["episodes"]]
        start = page["next"]
    return ids


@pytest.mark.parametrize("limit", [1, 7, 50, 200])
@pytest.mark.parametrize("policy", ["", "p1"])
@pytest.mark.parametrize("success", ["", "true", "false", "unknown"])
@pytest.mark.parametrize("text", ["", "kettle"])
def test_pages_give_every_matching_episode_once(log: Path, limit: int, policy: str, success: str, text: str) -> None:
    wanted = {"true": True, "false": False, "unknown": None}
    expected = [
        trajectory.id
        for trajectory in store.read(log)
        if policy in ("", trajectory.policy)
        and (not success or trajectory.success is wanted[success])
        and text in trajectory.steps[0].observation.lower()
    ]
    assert expected
    assert walked(EpisodeIndex(log), limit=limit, policy=policy, success=success, text=text) == expected


def test_a_search_reads_only_so_much_at_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldline.report.episodes.MOST_SEARCHED", 64)
    index = EpisodeIndex(log)
    page = index.page(Query(text="nowhere"))
    assert page["episodes"] == []
    assert page["next"] == 64
    assert walked(index, text="nowhere") == []


def test_an_episode_is_read_whole(log: Path) -> None:
    index = EpisodeIndex(log)
    assert [index.episode(row) for row in (0, 77, 149)] == [list(store.read(log))[row] for row in (0, 77, 149)]


def test_broken_shards_are_told_and_the_rest_is_shown(own_log: Path) -> None:
    broken = own_log / "zz.parquet"
    broken.write_bytes(b"PAR1 and no more")
    index = EpisodeIndex(own_log)
    assert len(index.rows) == 150
    assert "zz.parquet: broken shard" in index.page(Query())["problems"][0]


def test_a_log_that_grows_is_read_anew(own_log: Path, served: Callable[[Path], Get]) -> None:
    get = served(own_log)
    assert json.loads(get("/api/episodes?at=0")[1])["total"] == 150
    write_log(own_log, [episode(999)])
    assert json.loads(get("/api/episodes?at=0")[1])["total"] == 151


def test_list_report_and_episodes_are_served(
    judged: Path, run: Path, world_model: Path, served: Callable[[Path], Get]
) -> None:
    get = served(judged)
    listed = PageReader(get("/")[1])
    links = [attributes["href"] for tag, attributes in listed.tags if tag == "a"]
    assert links == ["/report", "/report?at=0", "/report?at=1", "/episodes?at=1"]
    for link in links:
        assert get(link)[0] == 200
    assert "Ranking" in PageReader(get("/report?at=0")[1]).tables
    page = json.loads(get("/api/episodes?at=1&limit=2")[1])
    assert page["total"] == 80
    whole = json.loads(get(f"/api/episode?at=1&row={page['episodes'][1]['row']}")[1])
    assert whole["id"] == page["episodes"][1]["id"]
    assert len(whole["steps"]) == page["episodes"][1]["length"]


def test_hostile_names_are_escaped_everywhere(tmp_path: Path, served: Callable[[Path], Get]) -> None:
    folder = tmp_path / "<script>alert(1)<"
    get = served(write_log(folder, [episode(1, observation="<script>alert(2)</script>")]))
    for where in ("/", "/report?at=0"):
        assert "script" not in PageReader(get(where)[1]).names()
    scripts = [tag for tag, _ in PageReader(get("/episodes?at=0")[1]).tags if tag == "script"]
    assert len(scripts) == 1  # the page's own
    assert "script" not in PageReader(get("/%3Cscript%3Ealert(1)%3C/script%3E")[1]).names()
    assert "script" not in PageReader(get("/report?at=%3Cscript%3E")[1]).names()


@pytest.mark.parametrize(
    ("where", "status", "line"),
    [
        ("/nowhere", 404, "there is no page /nowhere"),
        ("/report?at=7", 400, "there is no entry 7"),
        ("/report?at=x", 400, "must be a whole number"),
        ("/api/episodes", 400, "must be a whole number"),
        ("/api/episode?at=0&row=150", 400, "has no row 150"),
        ("/api/episodes?at=0&limit=-1", 400, "must be a whole number"),
        (f"/api/episodes?at=0&start={'9' * 5000}", 400, "must be a whole number of at most 15 digits, got '999"),
        (f"/report?at={'9' * 5000}", 400, "must be a whole number of at most 15 digits, got &#39;999"),
        (f"/api/episode?at=0&row={'9' * 15}", 400, "has no row 999999999999999"),
    ],
)
def test_bad_requests_get_a_line(where: str, status: int, line: str, log: Path, served: Callable[[Path], Get]) -> None:
    got, text = served(log)(where)
    assert got == status
    assert line in text


def test_a_corrupt_file_is_a_line_on_its_own_page(tmp_path: Path, served: Callable[[Path], Get]) -> None:
    (tmp_path / "evaluation.json").write_text("{")
    write_log(tmp_path / "log", [episode(1)])
    get = served(tmp_path)
    assert get("/")[0] == 200
    status, text = get("/report?at=0")
    assert status == 400
    assert "evaluation.json: corrupt: not JSON" in text


def test_other_hosts_are_refused(log: Path, served: Callable[[Path], Get]) -> None:
    get = served(log)
    assert get("/", host="evil.example:80")[0] == 403
    assert get("/", host="localhost:80")[0] == 200


def test_a_port_that_is_taken_says_how_to_choose_another(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["view", str(log), "--port", str(port), "--no-browser"]) == 2
    assert f"--port {port}: is taken by another program: --port {port + 1} chooses another" in capsys.readouterr().err


def test_nothing_to_view_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path), "--no-browser"]) == 2
    assert "holds nothing to report on" in capsys.readouterr().err


@pytest.fixture
def limited(log: Path) -> Iterator[Callable[..., ThreadingHTTPServer]]:
    """A server with limits of its own, already serving."""
    servers = []

    def start(**limits: Any) -> ThreadingHTTPServer:
        servers.append(serve([log], 0, **limits))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def connected(server: ThreadingHTTPServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=5)


def answer(connection: socket.socket, request: bytes = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n") -> bytes:
    connection.sendall(request)
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("beginning", [b"", b"GET /", b"GET / HTTP/1.0\r\nHost: local"])
def test_a_silent_connection_is_dropped(limited: Callable[..., ThreadingHTTPServer], beginning: bytes) -> None:
    with connected(limited(patience=0.3)) as silent:
        silent.sendall(beginning)
        begun = time.monotonic()
        assert silent.recv(1) == b""
        assert 0.2 < time.monotonic() - begun < 2


def test_threads_are_bounded_and_who_waits_gets_an_answer(limited: Callable[..., ThreadingHTTPServer]) -> None:
    before, server = threading.active_count(), limited(at_once=3, patience=0.5)
    silent = [connected(server) for _ in range(20)]
    with connected(server) as reader:
        reader.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        time.sleep(0.2)
        assert threading.active_count() <= before + 1 + 3
        for one in silent:
            one.close()
        assert answer(reader, b"").startswith(b"HTTP/1.0 200 OK")


def test_who_waits_too_long_is_turned_away(limited: Callable[..., ThreadingHTTPServer]) -> None:
    server = limited(at_once=1, patience=1.0)
    with connected(server) as busy, connected(server) as late:
        for _ in range(8):  # not silent, but slow
            busy.sendall(b"x")
            time.sleep(0.2)
        assert late.recv(100).startswith(b"HTTP/1.0 503 ")
        busy.close()
        with connected(server) as reader:
            assert answer(reader).startswith(b"HTTP/1.0 200 OK")


def test_every_answer_has_a_strict_policy(
    limited: Callable[..., ThreadingHTTPServer], capfd: pytest.CaptureFixture[str]
) -> None:
    server = limited()
    requests = {
        b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n": "200 'none'",
        b"GET /episodes?at=0 HTTP/1.0\r\nHost: localhost\r\n\r\n": "200 'unsafe-inline'",
        b"GET /api/episodes?at=0 HTTP/1.0\r\nHost: localhost\r\n\r\n": "200 'none'",
        b"GET /episodes?at=x HTTP/1.0\r\nHost: localhost\r\n\r\n": "400 'none'",
        b"GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n": "403 'none'",
        b"GET /<script> HTTP/1.0\r\nHost: localhost\r\n\r\n": "404 'none'",
        b"GET http://[/ HTTP/1.0\r\nHost: localhost\r\n\r\n": "404 'none'",
        b"POST / HTTP/1.0\r\nHost: localhost\r\n\r\n": "501 'none'",
        b"GET / HTTP/9.9\r\n\r\n": "505 'none'",
        b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 200 + b"\r\n": "431 'none'",
    }
    for request, expected in requests.items():
        with connected(server) as connection:
            status, *lines = answer(connection, request).decode().split("\r\n\r\n")[0].splitlines()
        policy = next(line for line in lines if line.startswith("Content-Security-Policy: "))
        rules = "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; script-src"
        number, scripts = expected.split()
        assert status.split()[1] == number
        assert policy == f"Content-Security-Policy: {rules} {scripts}"
    with connected(server) as gone:  # a reader that leaves in the middle is no traceback
        gone.sendall(b"GET /")
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_a_log_is_named_by_its_path_and_nothing_else_can_be(log: Path, served: Callable[[Path], Get]) -> None:
    get = served(log)
    assert json.loads(get(f"/api/episodes?log={log}")[1])["total"] == 150
    assert json.loads(get(f"/api/episode?log={log}&id=e00007")[1])["row"] == 7
    assert get("/api/episodes?log=/etc/passwd")[0] == 400
    assert "has no episode 'nobody'" in get(f"/api/episode?log={log}&id=nobody")[1]


def test_counts_of_a_filter_are_exact(log: Path) -> None:
    index = EpisodeIndex(log)
    for policy in ("", "p1"):
        for success in ("", "true", "unknown"):
            query = Query(limit=3, policy=policy, success=success)
            assert index.page(query)["matching"] == len(walked(index, limit=200, policy=policy, success=success))
    assert index.page(Query(text="kettle"))["matching"] is None


def test_episodes_of_one_task_in_every_log_of_the_list(tmp_path: Path, served: Callable[[Path], Get]) -> None:
    write_log(tmp_path / "a", [episode(1, policy="v2"), episode(2, policy="v2")])
    write_log(tmp_path / "imagined", [episode(1, policy="v2").model_copy(update={"id": "dreamt"})])
    get = served(tmp_path)
    rows = json.loads(get("/api/same-task?at=0&row=0")[1])["episodes"]
    assert {(row["id"], Path(row["log"]).name) for row in rows} == {("e00001", "a"), ("dreamt", "imagined")}
    assert get("/api/same-task?at=0&row=9")[0] == 400
