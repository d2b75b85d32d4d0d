"""API policies against a real local HTTP server that behaves, stumbles, hangs and lies."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from worldline import policies
from worldline.policies import PolicyConfig
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
