"""API policies against a real local HTTP server that behaves, stumbles, hangs and lies."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from worldline import policies, store
from worldline.cli import main
from worldline.evaluate import candidates
from worldline.policies import PolicyConfig, client
from worldline.policies.api import Completion, read_completion
from worldline.policies.client import RefusedError
from worldline.types import InputError, ScoringPolicy, Turn, WorldlineError

Make = Callable[..., Turn]
Reply = Callable[[dict[str, Any], int], tuple[int, Any]]


class Server:
    """A chat endpoint. `reply(body, n)` answers the n-th request with a status and a JSON value, or raw bytes."""

    def __init__(self) -> None:
        self.reply: Reply = lambda body, n: (200, completion("look"))
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.dribble = 0.0
        self.headers: dict[str, str] = {}
        self.released = threading.Event()
        self.most_at_once = self._at_once = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    server.bodies.append(body)
                    server.keys.append(self.headers["Authorization"])
                    server.paths.append(self.path)
                    n = len(server.bodies)
                    server._at_once += 1
                    server.most_at_once = max(server.most_at_once, server._at_once)
                status, value = server.reply(body, n)
                with lock:
                    server._at_once -= 1
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, text in server.headers.items():
                    self.send_header(name, text)
                self.end_headers()
                for byte in [data] if not server.dribble else [data[i : i + 1] for i in range(len(data))]:
                    try:
                        self.wfile.write(byte)
                    except OSError:
                        return
                    time.sleep(server.dribble)

            def log_message(self, *args: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


def completion(text: str | None, logprobs: list[float] | None = None) -> dict[str, Any]:
    kept = None if logprobs is None else {"content": [{"token": "t", "logprob": value} for value in logprobs]}
    return {"choices": [{"message": {"role": "assistant", "content": text}, "logprobs": kept}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.released.set()
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def load(server: Server, **settings: Any) -> Any:
    given = {"api_timeout": 5.0, "api_backoff": 0.01, "api_retries": 3, **settings}
    return policies.load(f"api:some/model@{server.url}", None, PolicyConfig(**given))


def test_answers_keep_their_order_and_concurrency_is_bounded(server: Server, make_turn: Make) -> None:
    def reply(body: dict[str, Any], n: int) -> tuple[int, Any]:
        number = int(body["messages"][0]["content"].split("egg number ")[1].split()[0].strip("."))
        time.sleep(0.01 * (number % 3))
        return 200, completion(f"take egg {number}")

    server.reply = reply
    policy = load(server, api_concurrency=3)
    decisions = policy.act([make_turn(observation=f"egg number {i}") for i in range(20)])
    assert [d.action for d in decisions] == [f"take egg {i}" for i in range(20)]
    assert 1 < server.most_at_once <= 3
    assert not isinstance(policy, ScoringPolicy)


def test_what_is_asked_for(server: Server, make_turn: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    server.reply = lambda body, n: (200, completion("<think>so</think><action>look</action>", [-0.5, -0.25]))
    decision = load(server, prompt="paper", temperature=0.4).act([make_turn(seed=2**40 + 7)])[0]
    body = server.bodies[0]
    assert (decision.action, decision.token_logprobs, decision.logprob) == ("look", (-0.5, -0.25), None)
    assert (body["model"], body["temperature"], body["max_tokens"], body["seed"]) == ("some/model", 0.4, 512, 7)
    assert body["logprobs"] is True
    assert "put some apple on the desk" in body["messages"][0]["content"]
    assert server.keys == ["Bearer sesame"]
    assert server.paths == ["/v1/chat/completions"]


def test_full_url_is_taken_as_it_is(server: Server, make_turn: Make) -> None:
    server.url += "/chat/completions"
    assert load(server).act([make_turn()])[0].action == "look"
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [None]


@pytest.mark.parametrize("failure", [(500, {}), (503, b""), (429, {"error": "slow down"}), (200, b"{not json")])
def test_passing_failures_are_tried_again(server: Server, make_turn: Make, failure: tuple[int, Any]) -> None:
    server.reply = lambda body, n: failure if n <= 3 else (200, completion("look"))
    assert load(server).act([make_turn()])[0].action == "look"
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    ("failure", "says", "requests"),
    [
        ((500, b"out of\nmemory"), "status 500.*out of memory.*4 attempts", 4),
        ((401, {"error": "who are you"}), "status 401 .is OPENAI_API_KEY set.*who are you", 1),
        ((404, b""), "status 404 .is the URL right", 1),
        ((400, {"error": "temperature is wrong"}), "status 400: .*temperature is wrong", 1),
        ((200, b"<html>welcome</html>"), "not a chat completion: <html>welcome", 4),
        ((200, {"choices": []}), "not a chat completion", 4),
        ((200, {"choices": [{"message": {"content": 3}}]}), "not a chat completion", 4),
        ((200, [1]), "not a chat completion", 4),
    ],
)
def test_lasting_failures_are_one_line(
    server: Server, make_turn: Make, failure: tuple[int, Any], says: str, requests: int
) -> None:
    server.reply = lambda body, n: failure
    with pytest.raises(WorldlineError, match=says) as error:
        load(server).act([make_turn()])
    assert error.value.exit_code == 1
    assert str(error.value).startswith(f"{server.url}/chat/completions: ")
    assert "\n" not in str(error.value)
    assert len(server.bodies) == requests


def test_a_server_that_hangs(server: Server, make_turn: Make) -> None:
    def hang(body: dict[str, Any], n: int) -> tuple[int, Any]:
        server.released.wait(10)
        return 200, completion("late")

    server.reply = hang
    with pytest.raises(WorldlineError, match=r"no answer within 0.1 s \(3 attempts\)"):
        load(server, api_timeout=0.1, api_retries=2).act([make_turn()])


def test_a_server_that_dribbles(server: Server, make_turn: Make) -> None:
    server.dribble = 0.05
    with pytest.raises(WorldlineError, match=r"no answer within 0.2 s"):
        load(server, api_timeout=0.2, api_retries=0).act([make_turn()])


def test_a_server_that_is_not_there(server: Server, make_turn: Make) -> None:
    policy = policies.load("api:m@http://127.0.0.1:9", None, PolicyConfig(api_retries=0))
    with pytest.raises(WorldlineError, match=r"http://127\.0\.0\.1:9/chat/completions: cannot be reached"):
        policy.act([make_turn()])


def test_fields_the_server_refuses_are_left_out_from_then_on(server: Server, make_turn: Make) -> None:
    def reply(body: dict[str, Any], n: int) -> tuple[int, Any]:
        if "logprobs" in body:
            return 400, {"error": "logprobs are not offered"}
        if "max_tokens" in body:
            return 400, {"error": "use max_completion_tokens instead of max_tokens"}
        return 200, completion("look")

    server.reply = reply
    policy = load(server, api_concurrency=1)
    assert [d.action for d in policy.act([make_turn(), make_turn()])] == ["look", "look"]
    assert len(server.bodies) == 4
    assert server.bodies[-1]["max_completion_tokens"] == 64
    assert "seed" in server.bodies[-1]


@pytest.mark.parametrize("odd", [[1], {"content": [{"token": "t"}]}, {"content": [{"logprob": None}]}, "none"])
def test_odd_logprobs_are_no_logprobs(server: Server, make_turn: Make, odd: Any) -> None:
    server.reply = lambda body, n: (200, {"choices": [{"message": {"content": "look"}, "logprobs": odd}]})
    decision = load(server).act([make_turn()])[0]
    assert (decision.action, decision.token_logprobs) == ("look", None)


def test_no_content_is_an_empty_action(server: Server, make_turn: Make) -> None:
    server.reply = lambda body, n: (200, completion(None))
    assert load(server).act([make_turn()])[0].action == ""


def test_over_long_prompts_are_cut_and_counted(server: Server, make_turn: Make) -> None:
    policy = load(server, max_prompt_tokens=250)
    policy.act([make_turn(steps=9), make_turn(observation="BEGIN " + "egg " * 9000 + "END")])
    texts = [body["messages"][0]["content"] for body in server.bodies]
    assert all(len(text) <= 1000 for text in texts)
    assert any("BEGIN" in text and " ... " in text and "END" in text for text in texts)
    assert policy.counts.prompts == 2
    assert policy.counts.cut_observation == 1


@pytest.mark.parametrize("spec", ["model", "@http://x", "model@", "model@ftp://x", "model@http://"])
def test_bad_specifications(spec: str) -> None:
    with pytest.raises(InputError, match="api:MODEL@URL"):
        policies.load(f"api:{spec}", None, PolicyConfig())


def test_choosing_needs_probabilities() -> None:
    with pytest.raises(InputError, match="choose"):
        policies.load("api:m@http://localhost", None, PolicyConfig(mode="choose"))


CONTENT = b'{"choices": [{"message": {"content": "look"}, "logprobs": {"content": [%s]}}]}'
HOSTILE = [
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"choices":' * 50_000,
    b'{"choices": [' + b"9" * 5000 + b"]}",
    b'{"choices": {"0": {"message": {"content": "look"}}}}',
    b'{"choices": "look"}',
    b'{"choices": [[]]}',
    b'{"choices": [{"message": "look"}]}',
    b'{"choices": [{"message": {"content": [{"type": "text", "text": "look"}]}}]}',
    b'{"choices": [{"message": {"content": 1e999}}]}',
    b"null",
    b"1e999",
]


@pytest.mark.parametrize("answer", HOSTILE)
def test_what_is_no_completion_is_refused(answer: bytes) -> None:
    with pytest.raises(RefusedError, match="^not a chat completion: ") as error:
        read_completion(answer)
    assert error.value.of_request


@pytest.mark.parametrize(
    "token", [b'{"logprob": 1e999}', b'{"logprob": NaN}', b'{"logprob": %s}' % (b"9" * 400), b'{"logprob": []}', b"7"]
)
def test_log_probabilities_that_are_no_numbers_are_none(token: bytes) -> None:
    assert read_completion(CONTENT % token) == Completion("look", None)


def test_half_a_character_is_replaced() -> None:
    assert read_completion(b'{"choices": [{"message": {"content": "a\\ud800b"}}]}').text == "a?b"


@pytest.mark.parametrize(
    "failure", [*((200, answer) for answer in HOSTILE[2:5]), (400, b"filtered"), (413, b"too long")]
)
def test_a_request_that_fails_where_others_succeed_is_a_failed_decision(
    server: Server, make_turn: Make, failure: tuple[int, bytes]
) -> None:
    def reply(body: dict[str, Any], n: int) -> tuple[int, Any]:
        return failure if "poison" in body["messages"][0]["content"] else (200, completion("look"))

    server.reply = reply
    policy = load(server, api_retries=1)
    good, bad = policy.act([make_turn(), make_turn(observation="poison")])
    assert (good.action, good.failure) == ("look", "")
    assert bad.failure.startswith(f"{server.url}/chat/completions: ")
    assert len(bad.failure) < 400
    assert (
        policy.act([make_turn(observation="poison")])[0].failure == bad.failure
    )  # alone too, once the server has answered


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_a_server_that_stops_serving_ends_the_run(server: Server, make_turn: Make, status: int) -> None:
    server.reply = lambda body, n: (200, completion("look")) if n == 1 else (status, b"")
    policy = load(server, api_retries=0)
    assert policy.act([make_turn()])[0].action == "look"
    with pytest.raises(WorldlineError, match=f"status {status}"):
        policy.act([make_turn()])


@pytest.mark.parametrize("wish", ["-1", "nan", "inf", "9" * 5000, "1e9", "soon", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_no_wish_of_the_server_to_wait_is_obeyed_for_long(
    server: Server, make_turn: Make, wish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LONGEST_WAIT", 0.02)
    server.headers["Retry-After"] = wish
    server.reply = lambda body, n: (429, b"") if n == 1 else (200, completion("look"))
    begun = time.monotonic()
    assert load(server).act([make_turn()])[0].action == "look"
    assert time.monotonic() - begun < 2


def test_no_secret_is_shown(server: Server, make_turn: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the name, not by an error, not even where the server says it itself or redirects with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-K3Y")
    server.url = server.url.replace("//", "//user:P4SS@") + "?api-key=S3CRET"
    policy = load(server, api_retries=0)
    assert policy.name == f"api:some/model@http://127.0.0.1:{server.http.server_port}/v1"
    server.reply = lambda body, n: (500, f"bad {' ' * 140} {server.paths[-1]} P4SS sk-K3Y \x1b[2J".encode())
    lines = [repr(policy), repr(vars(policy))]
    with pytest.raises(WorldlineError) as error:
        policy.act([make_turn()])
    lines.append(str(error.value))
    assert server.paths == ["/v1/chat/completions?api-key=S3CRET"]
    server.reply = lambda body, n: (307, b"")
    server.headers["Location"] = "http://user:P4SS@elsewhere.example/v1?api-key=S3CRET"
    with pytest.raises(WorldlineError, match="redirects to http://elsewhere.example/v1, another origin") as error:
        policy.act([make_turn()])
    lines.append(str(error.value))
    assert len(server.paths) == 2  # not tried again
    assert not any(secret in line for line in lines for secret in ("S3CRET", "P4SS", "K3Y", "\x1b"))


def test_an_error_body_that_dribbles_is_no_reason_to_wait(server: Server, make_turn: Make) -> None:
    server.reply = lambda body, n: (500, b"x" * 4000)
    server.dribble = 0.05
    begun = time.monotonic()
    with pytest.raises(WorldlineError, match="status 500"):
        load(server, api_timeout=0.3, api_retries=0).act([make_turn()])
    assert time.monotonic() - begun < 1.3


def test_a_bad_answer_costs_a_collection_one_episode_and_the_log_no_secret(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(body: dict[str, Any], n: int) -> tuple[int, Any]:
        poisoned = body["messages"] == server.bodies[0]["messages"]
        return (200, b"[" * 100_000) if poisoned else (200, completion("look"))

    server.reply = reply
    words = "collect household --options.level tiny --episodes 4 --max-steps 2 --api-retries 1 --api-backoff 0 --json"
    spec = f"api:m@{server.url}?api-key=S3CRET"
    assert main([*words.split(), "--policy", spec, "--out", str(tmp_path / "log")]) == 0
    shown = capsys.readouterr()
    assert "S3CRET" not in shown.out + shown.err
    (failed,) = json.loads(shown.out)["failed"]
    assert f"{server.url}/chat/completions: not a chat completion: [[[" in failed
    episodes = list(store.read(tmp_path / "log"))
    assert [episode.policy for episode in episodes] == [f"api:m@{server.url}"] * 3
    assert candidates.named([spec], "--policy") == {f"api:m@{server.url}": spec}
