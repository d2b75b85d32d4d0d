"""Models behind an OpenAI-compatible chat endpoint (vLLM, a hosted model), as policies that generate.

Requests go out side by side, each with its own total time; a 429, a 5xx, a timeout or an answer that is no chat
completion is tried again. The key comes from OPENAI_API_KEY. Token log-probabilities are kept where the server
gives them, but not added up: servers differ on temperature and on the end token, so `logprob` stays unknown and such
a policy is evaluated by estimators that need none.
"""

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from worldline.policies.prompts import TEMPLATES, Counts, View, render, shortened, view
from worldline.policies.settings import PolicyConfig
from worldline.types import Decision, InputError, Turn, WorldlineError, uniform

_CHARS_PER_TOKEN = 4
_LONGEST_WAIT = 30.0
_MOST_BYTES = 2**24


def load(spec: str, settings: PolicyConfig) -> "APIPolicy":
    """The policy of `MODEL@URL`."""
    found = re.fullmatch(r"(.+)@(https?://[^/\s]+\S*)", spec)
    if not found:
        raise InputError(f"api:{spec}: write it as api:MODEL@URL, for example api:my-model@http://localhost:8000/v1")
    return APIPolicy(found[1], found[2], settings)


class RefusedError(Exception):
    """An attempt that failed; `wait` is what the server asked for before the next, None where none would help."""

    def __init__(self, reason: str, wait: float | None = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class APIPolicy:
    """A remote chat model. Its seeds are the turns' own, which helps where the server honours them."""

    def __init__(self, model: str, url: str, settings: PolicyConfig) -> None:
        if settings.mode == "choose":
            raise InputError("--mode: an API gives no probabilities of listed actions; choose needs an hf: policy")
        self.name = f"api:{model}@{url}"
        self.counts = Counts()
        self._model = model
        self._url = url.rstrip("/") if url.endswith("/chat/completions") else f"{url.rstrip('/')}/chat/completions"
        self._settings = settings
        self._template = TEMPLATES["plain" if settings.prompt == "auto" else settings.prompt]
        self._optional = {"logprobs", "seed"}
        self._length_field = "max_tokens"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        if not turns:
            return []
        with ThreadPoolExecutor(min(self._settings.api_concurrency, len(turns))) as pool:
            return list(pool.map(self._decide, turns))

    def _decide(self, turn: Turn) -> Decision:
        choice = self._ask(turn)
        text: str = choice["message"].get("content") or ""
        return Decision(action=self._template.parse(text, turn), response=text, token_logprobs=_token_logprobs(choice))

    def _ask(self, turn: Turn) -> dict[str, Any]:
        """The first choice of the completion, after as many attempts as it takes and may take."""
        prompt = self._prompt(turn)
        attempts = self._settings.api_retries + 1
        for attempt in range(attempts):
            try:
                return self._attempt(prompt, turn.seed)
            except RefusedError as refused:
                if refused.wait is None or attempt + 1 == attempts:
                    tried = f" ({attempt + 1} attempts)" if attempt else ""
                    raise WorldlineError(f"{self._url}: {refused}{tried}") from None
                # Half of the pause is chance, so that requests refused together do not come back together.
                pause = self._settings.api_backoff * 2**attempt * (0.5 + 0.5 * uniform(turn.seed, "retry", attempt))
                time.sleep(min(_LONGEST_WAIT, max(refused.wait, pause)))
        raise AssertionError("unreachable")

    def _attempt(self, prompt: str, seed: int) -> dict[str, Any]:
        body = self._body(prompt, seed)
        try:
            answer = self._post(body)
        except urllib.error.HTTPError as error:
            with error:
                said = _text_of(error)
            if error.code == 400 and self._give_way(body, said):
                return self._attempt(prompt, seed)
            raise RefusedError(_explained(error.code, said), _wait(error)) from None
        except TimeoutError:
            raise RefusedError(f"no answer within {self._settings.api_timeout:g} s") from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise RefusedError(f"cannot be reached: {getattr(error, 'reason', None) or error!r}") from None
        return _first_choice(answer)

    def _body(self, prompt: str, seed: int) -> dict[str, Any]:
        optional = {"logprobs": True, "seed": seed % 2**31}
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self._settings.temperature,
            self._length_field: self._settings.max_new_tokens or self._template.max_new_tokens,
            **{name: value for name, value in optional.items() if name in self._optional},
        }

    def _give_way(self, body: dict[str, Any], said: str) -> bool:
        """Whether the server only disliked a field that it can be spared, which is then left out for good."""
        if "max_completion_tokens" in said and "max_tokens" in body:
            self._length_field = "max_completion_tokens"
            return True
        disliked = {name for name in ("logprobs", "seed") if name in body and name in said}
        self._optional -= disliked
        return bool(disliked)

    def _post(self, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        deadline = time.monotonic() + self._settings.api_timeout
        read = bytearray()
        with urllib.request.urlopen(request, timeout=self._settings.api_timeout) as response:
            while part := response.read1(65536):
                read += part
                # A socket's timeout is for silence only; a server that dribbles has to end as well.
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(read) > _MOST_BYTES:
                    raise RefusedError("the answer is over 16 MB", wait=None)
        return bytes(read)

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


def _first_choice(answer: bytes) -> dict[str, Any]:
    try:
        choice = json.loads(answer)["choices"][0]
        if not isinstance(choice["message"].get("content"), str | None):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RefusedError(f"not a chat completion: {_shown(answer.decode(errors='replace'))}") from None
    found: dict[str, Any] = choice
    return found


def _token_logprobs(choice: dict[str, Any]) -> tuple[float, ...] | None:
    try:
        return tuple(float(token["logprob"]) for token in choice["logprobs"]["content"]) or None
    except (LookupError, TypeError, ValueError):  # not offered, or not in the usual shape
        return None


def _explained(status: int, said: str) -> str:
    hint = {401: " (is OPENAI_API_KEY set?)", 403: " (is OPENAI_API_KEY right?)", 404: " (is the URL right?)"}
    return f"status {status}{hint.get(status, '')}: {_shown(said)}"


def _wait(error: urllib.error.HTTPError) -> float | None:
    """Seconds before it is worth trying again; None where it never is."""
    if error.code not in (408, 409, 425, 429) and error.code < 500:
        return None
    asked = error.headers.get("Retry-After") or "0"
    return float(asked) if re.fullmatch(r"\d+(\.\d+)?", asked) else 0.0


def _text_of(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(4096).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line[:160] or "(nothing)"
