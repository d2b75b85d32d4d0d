"""Models behind an OpenAI-compatible chat endpoint (vLLM, a hosted model), as policies that generate.

Requests go out side by side and are tried again where that may help (`client.py`). A request that keeps failing where
others succeed costs its episode; a server that cannot be reached, or refuses the key, ends the run. The key comes from
OPENAI_API_KEY. Token log-probabilities are kept where the server gives them, but not added up: servers differ on
temperature and on the end token, so `logprob` stays unknown and such a policy is evaluated by estimators that need
none. vLLM's can be added up: `vllm:MODEL@URL` (`language_model/served.py`).
"""

import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from worldline.policies.client import Client, RefusedError, good, refusal, text
from worldline.policies.endpoint import Endpoint
from worldline.policies.prompts import TEMPLATES, Counts, View, render, shortened, view
from worldline.policies.settings import PolicyConfig
from worldline.post import public
from worldline.types import Decision, InputError, Turn, WorldlineError

_CHARS_PER_TOKEN = 4
_AT_ONCE = 16


def load(spec: str, settings: PolicyConfig) -> "APIPolicy":
    """The policy of `MODEL@URL`."""
    parts = re.fullmatch(r"(.+)@(https?://[^/\s]+\S*)", spec)
    if not parts:
        raise InputError("write an API policy as api:MODEL@URL, for example api:my-model@http://localhost:8000/v1")
    return APIPolicy(parts[1], parts[2], settings)


class APIPolicy:
    """A remote chat model. Its seeds are the turns' own, which helps where the server honours them."""

    def __init__(self, model: str, url: str, settings: PolicyConfig) -> None:
        if settings.mode == "choose":
            raise InputError("--mode: an API gives no probabilities of listed actions; choose needs hf: or vllm:")
        self.name = f"api:{model}@{public(url)}"
        self.counts = Counts()
        self._model = model
        self._client = Client(Endpoint.at(url), settings)
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
        with ThreadPoolExecutor(min(self._settings.api_concurrency or _AT_ONCE, len(turns))) as pool:
            decisions = list(pool.map(self._decide, turns))
        self._answered = self._answered or not all(decision.failure for decision in decisions)
        if not self._answered:
            raise WorldlineError(decisions[0].failure)
        return decisions

    def _decide(self, turn: Turn) -> Decision:
        try:
            completion = self._ask(turn)
        except RefusedError as refused:
            line = f"{self._client.endpoint.name}: {refused}"
            if refused.of_request:
                return Decision(action="", response="", failure=line)
            raise WorldlineError(line) from None
        action = self._template.parse(completion.text, turn)
        return Decision(action=action, response=completion.text, token_logprobs=completion.token_logprobs)

    def _ask(self, turn: Turn) -> "Completion":
        prompt = self._prompt(turn)
        return self._client.persist(lambda: self._attempt(prompt, turn.seed), turn.seed)

    def _attempt(self, prompt: str, seed: int) -> "Completion":
        body = self._body(prompt, seed)
        reply = self._client.post(body)
        if good(reply):
            return read_completion(reply.body)
        if reply.status == 400 and self._give_way(body, text(reply.body)):
            return self._attempt(prompt, seed)
        raise refusal(reply)

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
        content = choice["message"].get("content")
        if not isinstance(content, str | None):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RefusedError(f"not a chat completion: {text(answer[:4096])}", of_request=True) from None
    # JSON can spell halves of a character, which nothing can store
    return Completion((content or "").encode("utf-8", "replace").decode(), _token_logprobs(choice))


def _token_logprobs(choice: dict[str, Any]) -> tuple[float, ...] | None:
    try:
        values = tuple(float(token["logprob"]) for token in choice["logprobs"]["content"])
    except (LookupError, TypeError, ValueError, OverflowError):  # not offered, or not in the usual shape
        return None
    return values if values and all(map(math.isfinite, values)) else None
