"""A retriever behind HTTP, played by a real local server: well, slow, broken and absent."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from worldline.envs import load
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.remote import RemoteRetriever
from worldline.types import WorldlineError

REQUESTS: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        REQUESTS.append({"path": self.path, **body})
        query = body["queries"][0]
        if query == "slow":
            time.sleep(1.5)
        documents = [{"id": n, "contents": f'"Title {n}"\n{query} text {n}'} for n in range(body["topk"])]
        result: Any = {"result": [[{"document": document, "score": 1.0} for document in documents]]}
        answer = b"<html>" if query == "garbage" else json.dumps({} if query == "empty" else result).encode()
        status = {"broken": 500, "elsewhere": 302, "moved": 307}.get(query, 200)
        if query == "moved" and self.path.endswith("/there"):
            status = 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/retrieve")
        if status == 307:
            self.send_header("Location", "/there")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_search_r1s_form(url: str) -> None:
    passages = RemoteRetriever(url, timeout=5).search("owls", 2)
    assert passages == (Passage("Title 0", "owls text 0"), Passage("Title 1", "owls text 1"))
    assert REQUESTS[-1] == {"path": "/retrieve", "queries": ["owls"], "topk": 2, "return_scores": True}
    assert RemoteRetriever(f"{url}/retrieve", timeout=5).search("owls", 2) == passages


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("slow", r"no answer within 0\.3 s"),
        ("broken", "answered 500 Internal Server Error"),
        ("elsewhere", "redirects to http://localhost:.*another origin"),
        ("garbage", "Expecting value"),
        ("empty", "no {'result'"),
    ],
)
def test_trouble_is_one_line_and_costs_no_run(url: str, query: str, line: str) -> None:
    retriever = RemoteRetriever(url, timeout=0.3)
    with pytest.raises(WorldlineError, match=line) as raised:
        retriever.search(query, 3)
    assert raised.value.exit_code == 1  # the engine retries such an episode; bad input would end the run
    assert len(retriever.search("after that", 3)) == 3


def test_a_redirect_within_the_origin_is_followed_with_the_same_question(url: str) -> None:
    assert len(RemoteRetriever(url, timeout=5).search("moved", 2)) == 2
    assert REQUESTS[-1] == {"path": "/there", "queries": ["moved"], "topk": 2, "return_scores": True}


def test_a_world_searches_there_and_says_at_once_when_nobody_answers(url: str, tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"id": 1, "question": "who?", "answer": "Ada"}')
    environment = load("searchqa", data=file, options={"retriever": url}).make()
    environment.reset(task="q/1")
    assert "Doc 3(Title: Title 2) owls text 2" in environment.step("<search>owls</search>")[0]
    with pytest.raises(WorldlineError, match=r"127\.0\.0\.1:9/retrieve.*is it running"):
        load("searchqa", data=file, options={"retriever": "http://127.0.0.1:9", "timeout": 1})
