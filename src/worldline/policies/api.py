"""Models behind an OpenAI-compatible chat endpoint (vLLM, a hosted model), as policies that generate.

Requests go out side by side, each with its own total time; a 429, a 5xx, a timeout or an answer that is no chat
completion is tried again. A request that keeps failing where others succeed costs its episode; a server that cannot be
reached, or refuses the key, ends the run. The key comes from OPENAI_API_KEY. Token log-probabilities are kept where
the server gives them, but not added up: servers differ on temperature and on the end token, so `logprob` stays unknown
and such a policy is evaluated by estimators that need none.
"""

import json
import math
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from worldline.policies.endpoint import Endpoint
from worldline.policies.prompts import TEMPLATES, Counts, View, render, shortened, view
from worldline.policies.settings import PolicyConfig
from worldline.post import RedirectError, Reply, TooLongError, post, public
from worldline.types import Decision, InputError, Turn, WorldlineError, uniform

_CHARS_PER_TOKEN = 4
_LONGEST_WAIT = 30.0
_MOST_SHOWN = 200
_OWN_FAULT = (400, 413, 422)
"""Statuses with which a server that works refuses one request: its words, its length."""


def load(spec: str, settings: PolicyConfig) -> "APIPolicy":
    """The policy of `MODEL@URL`."""
    parts = re.fullmatch(r"(.+)@(https?://[^/\s]+\S*)", spec)
    if not parts:
        raise InputError("write an API policy as api:MODEL@URL, for example api:my-model@http://localhost:8000/v1")
    return APIPolicy(parts[1], parts[2], settings)


class RefusedError(Exception):
    """An attempt that failed; `wait` is what the server asked for before the next, None where none would help.

    `of_request`: it fails this request only; others may well succeed.
    """

    def __init__(self, reason: str, wait: float | None = 0.0, *, of_request: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.of_request = wait, of_request


class APIPolicy:
    """A remote chat model. Its seeds are the turns' own, which helps where the server honours them."""

    def __init__(self, model: str, url: str, settings: PolicyConfig) -> None:
        if settings.mode == "choose":
            raise InputError("--mode: an API gives no probabilities of listed actions; choose needs an hf: policy")
        self.name = f"api:{model}@{public(url)}"
        self.counts = Counts()
        self._model = model
        self._endpoint = Endpoint.at(url)
        self._settings = settings
        self._template = TEMPLATES["plain" if settings.prompt == "auto" else settings.prompt]
        self._optional = {"logprobs", "seed"}
        self._length_field = "max_tokens"
        self._answered = False

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """Decisions; a request that failed for its own sake is a decision with a `failure`.

        As long as no request at all has succeeded, it is the server or the settings that are wrong: that is raised.
        """
        if not turns:
            return []
        with ThreadPoolExecutor(min(self._settings.api_concurrency, len(turns))) as pool:
            decisions = list(pool.map(self._decide, turns))
        self._answered = self._answered or not all(decision.failure for decision in decisions)
        if not self._answered:
            raise WorldlineError(decisions[0].failure)
        return decisions

    def _decide(self, turn: Turn) -> Decision:
        try:
            completion = self._ask(turn)
        except RefusedError as refused:
            line = f"{self._endpoint.name}: {refused}"
            if refused.of_request:
                return Decision(action="", response="", failure=line)
            raise WorldlineError(line) from None
        action = self._template.parse(completion.text, turn)
        return Decision(action=action, response=completion.text, token_logprobs=completion.token_logprobs)

    def _ask(self, turn: Turn) -> "Completion":
        """The completion, after as many attempts as it takes and may take."""
        prompt = self._prompt(turn)
        attempts = self._settings.api_retries + 1
        for attempt in range(attempts):
            try:
                return self._attempt(prompt, turn.seed)
            except RefusedError as refused:
                if refused.wait is None or attempt + 1 == attempts:
                    tried = f" ({attempt + 1} attempts)" if attempt else ""
                    line = f"{_brief(self._endpoint.redacted(str(refused)))}{tried}"
                    raise RefusedError(line, of_request=refused.of_request) from None
                # Half of the pause is chance, so that requests refused together do not come back together.
                chance = 0.5 + 0.5 * uniform(turn.seed, "retry", attempt)
                pause = self._settings.api_backoff * 2.0 ** min(attempt, 32) * chance
                time.sleep(min(_LONGEST_WAIT, max(refused.wait, pause)))
        raise AssertionError("unreachable")

    def _attempt(self, prompt: str, seed: int) -> "Completion":
        body = self._body(prompt, seed)
        reply = self._post(body)
        if 200 <= reply.status < 300:
            return read_completion(reply.body)
        text = _text(reply.body)
        if reply.status == 400 and self._give_way(body, text):
            return self._attempt(prompt, seed)
        raise RefusedError(_explained(reply.status, text), _wait(reply), of_request=reply.status in _OWN_FAULT)

    def _post(self, body: dict[str, Any]) -> Reply:
        endpoint, seconds = self._endpoint, self._settings.api_timeout
        try:
            return post(endpoint.url, json.dumps(body).encode(), endpoint.headers, seconds)
        except TimeoutError:
            raise RefusedError(f"no answer within {seconds:g} s") from None
        except (RedirectError, TooLongError) as error:
            raise RefusedError(str(error), wait=None, of_request=isinstance(error, TooLongError)) from None
        except (HTTPException, OSError, ValueError) as error:  # ValueError: a host or header that cannot be written
            raise RefusedError(f"cannot be reached: {error!r}") from None

    def _body(self, prompt: str, seed: int) -> dict[str, Any]:
        optional = {"logprobs": True, "seed": seed % 2**31}
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self._settings.temperature,
            self._length_field: self._settings.max_new_tokens or self._template.max_new_tokens,
            **{name: value for name, value in optional.items() if name in self._optional},
        }

    def _give_way(self, body: dict[str, Any], refusal: str) -> bool:
        """Whether the server only disliked a field that it can be spared, which is then left out for good."""
        if "max_completion_tokens" in refusal and "max_tokens" in body:
            self._length_field = "max_completion_tokens"
            return True
        disliked = {name for name in ("logprobs", "seed") if name in body and name in refusal}
        self._optional -= disliked
        return bool(disliked)

    def _prompt(self, turn: Turn) -> str:
        longest = _CHARS_PER_TOKEN * self._settings.max_prompt_tokens
        shown = view(self._template, turn, self._settings.history, 2 * longest)
        self.counts.prompts += 1

        def text(shown: View) -> str:
            return render(self._template, shown.turn, shown.history)

        whole = text(shown)
        if len(whole) <= longest:
            return whole
        return text(shortened(shown, lambda v: len(text(v)) <= longest, self.counts))


@dataclass(frozen=True)
class Completion:
    """What a model wrote, and its tokens' log-probabilities where the server gives them."""

    text: str
    token_logprobs: tuple[float, ...] | None = None


def read_completion(answer: bytes) -> Completion:
    """The first choice of a chat completion; RefusedError for any other bytes whatever."""
    try:
        choice = json.loads(answer)["choices"][0]
        text = choice["message"].get("content")
        if not isinstance(text, str | None):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RefusedError(f"not a chat completion: {_text(answer[:4096])}", of_request=True) from None
    # JSON can spell halves of a character, which nothing can store
    return Completion((text or "").encode("utf-8", "replace").decode(), _token_logprobs(choice))


def _token_logprobs(choice: dict[str, Any]) -> tuple[float, ...] | None:
    try:
        values = tuple(float(token["logprob"]) for token in choice["logprobs"]["content"])
    except (LookupError, TypeError, ValueError, OverflowError):  # not offered, or not in the usual shape
        return None
    return values if values and all(map(math.isfinite, values)) else None


def _explained(status: int, text: str) -> str:
    hint = {401: " (is OPENAI_API_KEY set?)", 403: " (is OPENAI_API_KEY right?)", 404: " (is the URL right?)"}
    return f"status {status}{hint.get(status, '')}: {text}"


def _wait(reply: Reply) -> float | None:
    """Seconds before it is worth trying again; None where it never is."""
    if reply.status not in (408, 409, 425, 429) and reply.status < 500:
        return None
    return float(reply.retry_after) if re.fullmatch(r"\d+(\.\d+)?", reply.retry_after) else 0.0


def _text(answer: bytes) -> str:
    return answer.decode(errors="replace").strip() or "(nothing)"


def _brief(text: str) -> str:
    """One line, without what a terminal would obey."""
    line = " ".join(text.split())[:_MOST_SHOWN]
    return "".join(char if char.isprintable() else "?" for char in line)
