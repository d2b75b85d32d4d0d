"""Requests to a server: tried again where that may help, and refused in words that a user can act on.

A 429, a 5xx, a timeout or an answer that makes no sense is tried again, with pauses that double; other refusals are
not. Each attempt has its own total time. What the requests ask for is their senders' affair (`api`, `language_model`).
"""

import json
import re
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar

from worldline.policies.endpoint import Endpoint
from worldline.policies.settings import PolicyConfig
from worldline.post import RedirectError, Reply, TooLongError, post
from worldline.types import uniform

Answer = TypeVar("Answer")

_LONGEST_WAIT = 30.0
_MOST_SHOWN = 200
_OWN_FAULT = (400, 413, 422)
"""Statuses with which a server that works refuses one request: its words, its length."""


class RefusedError(Exception):
    """An attempt that failed; `wait`: seconds before the next attempt; None where that would fail too.

    `of_request`: it fails this request only; others may well succeed. `status` is 0 where no answer came.
    """

    def __init__(self, reason: str, wait: float | None = 0.0, *, of_request: bool = False, status: int = 0) -> None:
        super().__init__(reason)
        self.wait, self.of_request, self.status = wait, of_request, status


class Client:
    """Sends JSON to one endpoint."""

    def __init__(self, endpoint: Endpoint, settings: PolicyConfig) -> None:
        self.endpoint = endpoint
        self._settings = settings

    def persist(self, attempt: Callable[[], Answer], seed: int) -> Answer:
        """What `attempt` returns, after as many attempts as it takes and may take; `seed` spreads the pauses."""
        attempts = self._settings.api_retries + 1
        for number in range(attempts):
            try:
                return attempt()
            except RefusedError as refused:
                if refused.wait is None or number + 1 == attempts:
                    tried = f" ({number + 1} attempts)" if number else ""
                    line = f"{brief(self.endpoint.redacted(str(refused)))}{tried}"
                    raise RefusedError(line, of_request=refused.of_request, status=refused.status) from None
                # Half of the pause is chance, so that requests refused together do not come back together.
                chance = 0.5 + 0.5 * uniform(seed, "retry", number)
                pause = self._settings.api_backoff * 2.0 ** min(number, 32) * chance
                time.sleep(min(_LONGEST_WAIT, max(refused.wait, pause)))
        raise AssertionError("unreachable")

    def post(self, body: dict[str, Any]) -> Reply:
        """The server's reply, whatever its status; RefusedError where none came."""
        endpoint, seconds = self.endpoint, self._settings.api_timeout
        try:
            return post(endpoint.url, json.dumps(body).encode(), endpoint.headers, seconds)
        except TimeoutError:
            raise RefusedError(f"no answer within {seconds:g} s") from None
        except (RedirectError, TooLongError) as error:
            raise RefusedError(str(error), wait=None, of_request=isinstance(error, TooLongError)) from None
        except (HTTPException, OSError, ValueError) as error:  # ValueError: a host or header that cannot be written
            raise RefusedError(f"cannot be reached: {error!r}") from None


def good(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def refusal(reply: Reply) -> RefusedError:
    """A reply that is not good, as an error."""
    hint = {401: " (is OPENAI_API_KEY set?)", 403: " (is OPENAI_API_KEY right?)", 404: " (is the URL right?)"}
    reason = f"status {reply.status}{hint.get(reply.status, '')}: {text(reply.body)}"
    return RefusedError(reason, _wait(reply), of_request=reply.status in _OWN_FAULT, status=reply.status)


def text(answer: bytes) -> str:
    return answer.decode(errors="replace").strip() or "(nothing)"


def brief(words: str) -> str:
    """One line, without what a terminal would obey."""
    line = " ".join(words.split())[:_MOST_SHOWN]
    return "".join(char if char.isprintable() else "?" for char in line)


def _wait(reply: Reply) -> float | None:
    """Seconds before it is worth trying again; None where it never is."""
    if reply.status not in (408, 409, 425, 429) and reply.status < 500:
        return None
    return float(reply.retry_after) if re.fullmatch(r"\d+(\.\d+)?", reply.retry_after) else 0.0
