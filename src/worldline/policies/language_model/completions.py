"""Requests to a `vllm serve`: completions from token ids to token ids, log-probs of named tokens, LoRA adapters.

Token ids go out and come back, so nothing is tokenised twice, and every default of the server's that would change a
distribution (top-p, top-k, penalties, the end tokens of its generation config) is set off in each request. A server
without vLLM's fields `return_token_ids` and `logprob_token_ids` is refused; it can be an `api:` policy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from worldline.policies.client import Client, RefusedError, good, refusal, text
from worldline.policies.endpoint import Endpoint
from worldline.policies.settings import PolicyConfig
from worldline.post import public
from worldline.types import InputError, WorldlineError

Result = TypeVar("Result")

MOST_NAMED = 128
"""Most tokens whose log-probs vLLM gives by name in one request."""
_ALL_AS_IT_IS = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "ignore_eos": True,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
_PREFIX = "token_id:"
_LEAST = -9999.0
"""vLLM's word for minus infinity."""


class UnavailableError(WorldlineError):
    """The server cannot be reached (status 0), has broken down, or does not have what a request names (404)."""

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


class _LogProbs(BaseModel):
    model_config = ConfigDict(frozen=True)

    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]


class _Choice(BaseModel):
    model_config = ConfigDict(frozen=True)

    index: int
    token_ids: list[int]
    logprobs: _LogProbs


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)

    choices: list[_Choice]


@dataclass(frozen=True)
class SampledTokens:
    """Tokens with the end token, their log-probs, and before each token the log-probs that the request named, by id."""

    ids: list[int]
    logprobs: list[float]
    tops: list[dict[int, float]]


class CompletionServer:
    """One model of a `vllm serve`, or one of its adapters."""

    def __init__(self, model: str, url: str, settings: PolicyConfig) -> None:
        self.model, self.url, self._settings = model, url, settings
        self.name = f"vllm:{model}@{public(url)}"
        self._completions = self._client("/completions")

    def sample(
        self, prompt: Sequence[int], *, seed: int, stops: Sequence[int], longest: int, temperature: float, top: int
    ) -> SampledTokens:
        """A response to `prompt`, with the log-probs of the `top` likeliest tokens (-1: of all) at each place."""
        body = {"max_tokens": longest, "temperature": temperature, "stop_token_ids": list(stops), "logprobs": top}
        return self._complete(body | {"prompt": list(prompt), "seed": seed % 2**31}, 1, seed)[0]

    def following(
        self, prefixes: Sequence[Sequence[int]], temperature: float, *, named: Sequence[int] = (), top: int = 0
    ) -> list[SampledTokens]:
        """One token behind each of `prefixes`, with the log-probs of the `named` tokens, or of the `top` likeliest."""
        wish: dict[str, Any] = {"logprobs": top}
        if named:
            wish = {"logprobs": len(named), "logprob_token_ids": list(named)}
        body = wish | {"prompt": [list(prefix) for prefix in prefixes], "max_tokens": 1, "temperature": temperature}
        nexts = self._complete(body, len(prefixes), seed=0)
        if any(token not in tokens.tops[0] for tokens in nexts for token in named):
            raise InputError(
                f"{self.name}: the server gives no log-probs of named tokens (logprob_token_ids): vLLM 0.32 does"
            )
        return nexts

    def check(self, prompt: Sequence[int], temperature: float) -> None:
        """InputError where the server's log-probs are not those of the distribution that it samples from."""
        plain, scaled = (self.following([prompt], t, top=5)[0].tops[0] for t in (1.0, temperature))
        if sum(math.exp(min(value, 700.0)) for value in plain.values()) > 1.001:
            raise InputError(f"{self.name}: the server gives logits: start it with --logprobs-mode processed_logprobs")
        both = plain.keys() & scaled.keys()
        if temperature not in (0.0, 1.0) and all(abs(plain[token] - scaled[token]) < 1e-5 for token in both):
            raise InputError(
                f"{self.name}: the server's log-probs ignore the temperature ({temperature:g}): start it with "
                "--logprobs-mode processed_logprobs"
            )

    def load_adapter(self, name: str, folder: str) -> None:
        """Serve the LoRA adapter in `folder`, a path on the server's machine, as a model called `name`."""
        self._post("/load_lora_adapter", {"lora_name": name, "lora_path": folder})

    def unload_adapter(self, name: str) -> None:
        self._post("/unload_lora_adapter", {"lora_name": name})

    def control(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Ask for something that the server does to itself."""
        self._post(path, body or {})

    def _complete(self, wish: dict[str, Any], count: int, seed: int) -> list[SampledTokens]:
        body = {"model": self.model} | _ALL_AS_IT_IS | wish

        def attempt() -> list[SampledTokens]:
            reply = self._completions.post(body)
            if not good(reply):
                raise refusal(reply)
            return read_answer(reply.body, count)

        return self._persist(self._completions, attempt, seed)

    def _post(self, path: str, body: dict[str, Any]) -> None:
        client = self._client(path)

        def attempt() -> None:
            reply = client.post(body)
            if not good(reply):
                raise refusal(reply)

        self._persist(client, attempt, seed=0)

    def _persist(self, client: Client, attempt: Callable[[], Result], seed: int) -> Result:
        try:
            return client.persist(attempt, seed)
        except RefusedError as refused:
            line = f"{client.endpoint.name}: {refused}"
            if refused.of_request:
                raise RefusedError(line, of_request=True, status=refused.status) from None
            if refused.status in (0, 404) or refused.status >= 500:
                raise UnavailableError(line, refused.status) from None
            raise WorldlineError(line) from None

    def _client(self, path: str) -> Client:
        return Client(Endpoint.at(self.url, path, "vllm:MODEL@URL"), self._settings)


def read_answer(answer: bytes, count: int) -> list[SampledTokens]:
    """The completions of `count` prompts, in their order; RefusedError for any other bytes whatever."""
    try:
        choices = sorted(_Answer.model_validate_json(answer).choices, key=lambda choice: choice.index)
        read = [_tokens(choice) for choice in choices]
    except (ValidationError, ValueError):
        raise RefusedError(
            f"not a completion with token ids and their log-probs (is it vLLM?): {text(answer[:4096])}",
            of_request=True,
        ) from None
    if len(read) != count:
        raise RefusedError(f"{len(read)} completions for {count} prompts", of_request=True)
    return read


def _tokens(choice: _Choice) -> SampledTokens:
    ids, logprobs = choice.token_ids, choice.logprobs
    if not len(ids) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) > 0:
        raise ValueError
    tops = [
        {int(token.removeprefix(_PREFIX)): _finite(value) for token, value in top.items()}
        for top in logprobs.top_logprobs
    ]
    return SampledTokens(ids, [_finite(value) for value in logprobs.token_logprobs], tops)


def _finite(value: float) -> float:
    return value if value > _LEAST else -math.inf
