"""What an OpenEnv server says of itself over HTTP: its name and version, its action's schema, its tasks.

Servers that know no tasks (most, and all before OpenEnv 0.4) have seeds instead.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from worldline.types import InputError

_PAGE = 1_000
"""Tasks that are read at once."""
_NO_TASKS = (404, 405, 501)


class Service:
    """The HTTP side of one server."""

    def __init__(self, name: str, url: str, timeout: float) -> None:
        self._name, self._url, self._timeout = name, url.rstrip("/"), timeout

    def action_schema(self) -> Mapping[str, Any]:
        answer = self._json("/schema")
        schema = answer.get("action") if isinstance(answer, dict) else None
        if not isinstance(schema, dict):
            raise InputError(f"{self._name}: the answer to /schema has no 'action': no OpenEnv server?")
        return schema

    def version(self) -> str:
        answer = self._json("/metadata", default={})
        return str((answer.get("version") if isinstance(answer, dict) else None) or "")

    def tasks(self) -> "ServerTasks | None":
        """The tasks by split; None where the server knows none."""
        names = self._json("/list_environments", default=None)
        if not isinstance(names, list) or not names:
            return None
        path = f"/{quote(str(names[0]), safe='')}"
        splits = self._json(f"{path}/splits", default=None)
        if not isinstance(splits, list) or not splits:
            return None
        sizes = {}
        for split in splits:
            name = str(split["name"] if isinstance(split, dict) else split)
            sizes[name] = int(self._json(f"{path}/num_tasks", {"split": name})["num_tasks"])
        return ServerTasks(self, path, sizes)

    def task_range(self, path: str, split: str, start: int, stop: int) -> list[Any]:
        answer = self._json(f"{path}/task_range", {"split": split, "start": start, "stop": stop})
        tasks = answer.get("tasks") if isinstance(answer, dict) else None
        if not isinstance(tasks, list) or len(tasks) != stop - start:
            raise InputError(f"{self._name}: the server gave no tasks {start} to {stop} of split '{split}'")
        return tasks

    def _json(self, path: str, body: Mapping[str, Any] | None = None, default: Any = ...) -> Any:
        """The answer; `default` where the server has no such page."""
        import httpx

        try:
            sent = {"json": dict(body)} if body is not None else {}
            reply = httpx.request("POST" if sent else "GET", self._url + path, timeout=self._timeout, **sent)
            if reply.status_code in _NO_TASKS and default is not ...:
                return default
            reply.raise_for_status()
            return reply.json()
        except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
            cause = " ".join(str(error).split()).replace(self._url, self._name)
            raise InputError(f"{self._name}: {path} could not be read: {cause or type(error).__name__}") from None


class ServerTasks:
    """The tasks that a server lists. A task's id is what the server calls it, else its split and place."""

    def __init__(self, service: Service, path: str, sizes: Mapping[str, int]) -> None:
        self._service, self._path, self.sizes = service, path, sizes
        self._ids: dict[tuple[str, int], str] = {}
        self._places: dict[str, tuple[str, int]] = {}

    def get_task(self, split: str, index: int) -> str:
        if (split, index) not in self._ids:
            self._read(split, index - index % _PAGE)
        return self._ids[split, index]

    def place(self, task: str) -> dict[str, Any]:
        """What `reset` takes for a task: a task that was not handed out here is looked for among all."""
        for split, size in self.sizes.items():
            for start in range(0, size, _PAGE):
                if task in self._places:
                    break
                if (split, start) not in self._ids:
                    self._read(split, start)
        if task not in self._places:
            raise InputError(f"the server has no task '{task}'")
        split, index = self._places[task]
        return {"split": split, "index": index}

    def _read(self, split: str, start: int) -> None:
        stop = min(start + _PAGE, self.sizes[split])
        for index, task in enumerate(self._service.task_range(self._path, split, start, stop), start):
            name = task.get("id") if isinstance(task, dict) else task
            written = str(name) if isinstance(name, str | int) else f"{split}-{index}"
            if self._places.setdefault(written, (split, index)) != (split, index):
                written = f"{split}-{index}"  # the server has two tasks of that name
                self._places[written] = (split, index)
            self._ids[split, index] = written
