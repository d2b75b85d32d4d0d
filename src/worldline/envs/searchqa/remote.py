"""A search engine behind HTTP, in the form of Search-R1's retrieval server.

`{"queries": [...], "topk": k, "return_scores": true}` is posted to `/retrieve`; what comes back is
`{"result": [[{"document": {...}, "score": x}, ...]]}`. A redirect to another origin is refused.
"""

import http.client
import json
from typing import Any

from worldline.envs.searchqa.corpus import to_passage
from worldline.envs.searchqa.passage import Passage
from worldline.post import RedirectError, TooLongError, post, public
from worldline.types import WorldlineError


class RemoteRetriever:
    """Asks the server at `url`; one that does not answer within `timeout` seconds costs the episode, not the run."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url if url.rstrip("/").endswith("/retrieve") else url.rstrip("/") + "/retrieve"
        self._timeout = timeout

    def search(self, query: str, k: int) -> tuple[Passage, ...]:
        request = {"queries": [query], "topk": k, "return_scores": True}
        answer = self._post(json.dumps(request).encode())
        try:
            rows = [row.get("document", row) for row in answer["result"][0]]
        except (KeyError, IndexError, TypeError, AttributeError):
            raise WorldlineError(f"retriever {self._url}: no {{'result': [[...]]}} in {str(answer)[:80]!r}") from None
        return tuple(to_passage(row, f"retriever {self._url}") for row in rows[:k])

    def _post(self, body: bytes) -> Any:
        where = f"retriever {public(self._url)}"
        try:
            reply = post(self._url, body, {"Content-Type": "application/json"}, self._timeout)
        except TimeoutError:
            raise WorldlineError(f"{where}: no answer within {self._timeout:g} s (option 'timeout')") from None
        except (RedirectError, TooLongError) as error:
            raise WorldlineError(f"{where}: {error}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise WorldlineError(f"{where}: {error} (is it running?)") from None
        if reply.status != http.client.OK:
            phrase = http.client.responses.get(reply.status, "")
            raise WorldlineError(f"{where}: answered {reply.status} {phrase}".rstrip())
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise WorldlineError(f"{where}: answered no JSON: {error}") from None
