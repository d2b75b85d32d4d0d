"""A stand-in for the Hugging Face Hub's HTTP API: repositories in memory, as far as a push and a pull need them.

Written after the requests that `huggingface_hub` makes; files are sent inline, as the hub asks for with small ones.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

_API = re.compile(r"/api/(datasets|models)/([\w.-]+/[\w.-]+)(?:/(revision|tree|preupload|commit)/([^/]+))?/?")
_FILE = re.compile(r"/(?:(datasets)/)?([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What is stored, and the requests so far."""

    repositories: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    private: dict[tuple[str, str], bool] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refuse_commits: bool = False
    url: str = ""


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *given: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer_read(with_body=True)

    def do_HEAD(self) -> None:
        self._answer_read(with_body=False)

    def do_POST(self) -> None:
        path = urlsplit(unquote(self.path)).path
        self.hub.requests.append(f"POST {path}")
        body = self._body()
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            head = yaml.safe_load(json.loads(body)["content"].split("---")[1])
            return self._send(
                200, {"errors": [] if isinstance(head, dict) else [{"message": "no mapping"}], "warnings": []}
            )
        match = _API.fullmatch(path)
        if match is None or (match[1], match[2]) not in self.hub.repositories:
            return self._send(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if match[3] == "preupload":
            wanted = json.loads(body)["files"]
            modes = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in wanted]
            return self._send(200, {"files": modes, "commitOid": COMMIT})
        if self.hub.refuse_commits:
            return self._send(500, {"error": "the disk is full"})
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                data = base64.b64decode(entry["value"]["content"])
                self.hub.repositories[match[1], match[2]][entry["value"]["path"]] = data
        url = f"{self.hub.url}/{match[2]}/commit/{COMMIT}"
        return self._send(200, {"commitOid": COMMIT, "commitUrl": url, "hookOutput": ""})

    def _create(self, given: dict[str, Any]) -> None:
        kind = "datasets" if given.get("type") == "dataset" else "models"
        name = f"{given.get('organization') or 'me'}/{given['name']}"
        url = f"{self.hub.url}/{'datasets/' if kind == 'datasets' else ''}{name}"
        if (kind, name) in self.hub.repositories:
            return self._send(409, {"error": "You already created this repo", "url": url})
        self.hub.repositories[kind, name] = {".gitattributes": b""}
        self.hub.private[kind, name] = given.get("private") or given.get("visibility") == "private"
        return self._send(200, {"url": url, "name": name, "id": "1"})

    def _answer_read(self, *, with_body: bool) -> None:
        path = urlsplit(unquote(self.path)).path
        self.hub.requests.append(f"{self.command} {path}")
        match, file = _API.fullmatch(path), _FILE.fullmatch(path)
        key = (match[1], match[2]) if match else (file[1] or "models", file[2]) if file else ("", "")
        content = self.hub.repositories.get(key)
        if content is None:
            return self._send(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if match is not None:
            entries = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in content.items()
            ]
            if match[3] == "tree":
                return self._send(200, entries)
            siblings = [{"rfilename": name} for name in content]
            return self._send(200, {"id": key[1], "sha": COMMIT, "siblings": siblings, "private": True, "tags": []})
        assert file is not None
        if file[4] not in content:
            return self._send(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        data = content[file[4]]
        heads = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        return self._send(200, data, heads, with_body=with_body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _send(self, status: int, content: Any, heads: dict[str, str] | None = None, *, with_body: bool = True) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (heads or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(data)
