"""`vllm:MODEL@URL`: a causal language model behind a stock `vllm serve`, with everything that `hf:` knows of it.

Turns are read and answers understood by the same code as `hf:` (`answering.py`); only the forward passes are
elsewhere. Sampled token ids and their log-probs are the server's own. Given actions are scored by the log-probs of
their tokens one place at a time: unlike vLLM's prompt log-probs these follow the temperature, use the server's prefix
cache and work beside LoRA adapters. An entropy needs all log-probs of a place, which is a lot to send: from the
likeliest ones it has bounds, and is kept where these are close.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import transformers

from worldline.policies.client import RefusedError
from worldline.policies.language_model.answering import (
    Described,
    Floats,
    among,
    checked,
    encoder_of,
    end_ids,
    generated,
    longest_response,
    preferences,
)
from worldline.policies.language_model.checkpoint import locate
from worldline.policies.language_model.completions import MOST_NAMED, CompletionServer, SampledTokens
from worldline.policies.language_model.encoding import Encoder, Tokenizer
from worldline.policies.mixing import admissible, pick
from worldline.policies.prompts import Counts
from worldline.policies.settings import PolicyConfig
from worldline.types import Decision, InputError, Turn, WorldlineError, uniform

Answer = TypeVar("Answer")

TOLERANCE = 0.01
"""Nats between the bounds of an entropy that is kept: their middle is then within half of it."""
_MOST_PREFIXES = 64
_MOST_SAMPLED = 256
"""Responses requested at once, unless the settings say otherwise."""
_MOST_SCORED = 32
"""Prompts whose answers are scored at once: each is many prefixes, and all of them must be read within the timeout."""


def load(spec: str, settings: PolicyConfig) -> "ServedPolicy":
    """The policy of `MODEL@URL`; the tokenizer and the config are read here, from MODEL or from `--tokenizer`."""
    parts = re.fullmatch(r"(.+)@(https?://[^/\s]+\S*)", spec)
    if not parts:
        raise InputError("write a served policy as vllm:MODEL@URL, for example vllm:my/model@http://localhost:8000/v1")
    model, url = parts[1], parts[2]
    where = settings.tokenizer or model
    written = f"--tokenizer {where}" if settings.tokenizer else f"vllm:{model} (its tokenizer; --tokenizer is another)"
    path = locate(where, written)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, LookupError, TypeError, ImportError) as error:
        raise InputError(f"{written}: cannot be loaded: {' '.join(str(error).split())[:200]}") from None
    return from_server(
        CompletionServer(model, url, settings), Described(config, _generation(path)), tokenizer, settings
    )


def from_server(
    server: CompletionServer, described: Any, tokenizer: Tokenizer, settings: PolicyConfig, name: str = ""
) -> "ServedPolicy":
    """A served model as a policy; `described` is its config, or the model itself."""
    encoder = encoder_of(described, tokenizer, settings, name or server.name)
    scores = settings.mode == "choose" or encoder.template.one_line
    return (ScoringServedPolicy if scores else ServedPolicy)(server, described, encoder, settings, name or server.name)


class ServedPolicy:
    """A served language model. All waiting turns are requested at once; the server batches them."""

    def __init__(
        self, server: CompletionServer, described: Any, encoder: Encoder, settings: PolicyConfig, name: str
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.settings = settings
        self.server = server
        self._stops = sorted(end_ids(described, encoder))
        self._vocabulary = int(described.config.get_text_config().vocab_size)
        self._top = min(settings.top_logprobs, self._vocabulary)
        self._trusted = self._answered = False

    @property
    def counts(self) -> Counts:
        """How many prompts were encoded, and how many of them were too long."""
        return self.encoder.counts

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """Decisions; a request that failed for its own sake is a decision with a `failure`.

        As long as no request at all has succeeded, it is the server or the settings that are wrong: that is raised.
        """
        prompts = self.encoder.prompts(turns)
        if not prompts:
            return []
        self._check(prompts)
        decisions = (self._choose if self.settings.mode == "choose" else self._generate)(turns, prompts)
        self._answered = self._answered or not all(decision.failure for decision in decisions)
        if not self._answered:
            raise WorldlineError(decisions[0].failure)
        return decisions

    def _generate(self, turns: Sequence[Turn], prompts: Sequence[list[int]]) -> list[Decision]:
        longest, temperature = longest_response(self.encoder, self.settings), self.settings.temperature

        def sample(row: int) -> SampledTokens:
            seed = turns[row].seed
            return self.server.sample(
                prompts[row], seed=seed, stops=self._stops, longest=longest, temperature=temperature, top=self._top
            )

        responses = self._all(sample, range(len(turns)), _MOST_SAMPLED)
        return [
            self._failed(response) if isinstance(response, RefusedError) else self._decision(turn, prompt, response)
            for turn, prompt, response in zip(turns, prompts, responses, strict=True)
        ]

    def _decision(self, turn: Turn, prompt: list[int], response: SampledTokens) -> Decision:
        # A greedy policy's own choice is certain, whatever the distribution it is the best of.
        logprobs = response.logprobs if self.settings.temperature else [0.0] * len(response.ids)
        checked(logprobs, self.name)
        return generated(self.encoder, turn, response.ids, logprobs, self._entropy(response.tops), self._kept(prompt))

    def _choose(self, turns: Sequence[Turn], prompts: Sequence[list[int]]) -> list[Decision]:
        choices = [admissible(turn, self.name) for turn in turns]
        tokens = [self.encoder.actions(actions) for actions in choices]
        scores = self._all(lambda row: self._scored(prompts[row], tokens[row], 1.0), range(len(turns)))
        decisions: list[Decision] = []
        for row, scored in enumerate(scores):
            if isinstance(scored, RefusedError):
                decisions.append(self._failed(scored))
                continue
            logp = preferences([sum(values) for values in scored], self.settings.temperature, self.name)
            chosen = pick(np.exp(logp), uniform(turns[row].seed, "choose"))
            action = choices[row][chosen]
            decisions.append(
                Decision(
                    action=action,
                    response=self.encoder.template.answer(action),
                    logprob=float(logp[chosen]),
                    token_ids=tuple(tokens[row][chosen]),
                    token_logprobs=tuple(scored[chosen]),
                    prompt_ids=self._kept(prompts[row]),
                )
            )
        # Only now: in a batch with a request for named tokens, vLLM gives no other request its likeliest ones.
        entropies = self._all(
            lambda row: self._entropy_along(prompts[row], decisions[row].token_ids or ()), range(len(turns))
        )
        return [
            replace(decision, entropy=None if isinstance(entropy, RefusedError) else entropy)
            for decision, entropy in zip(decisions, entropies, strict=True)
        ]

    def _failed(self, refused: RefusedError) -> Decision:
        return Decision(action="", response="", failure=str(refused))

    def _scored(self, prompt: Sequence[int], answers: Sequence[Sequence[int]], temperature: float) -> list[list[float]]:
        """Log-probs, at `temperature`, of every token of every answer to `prompt`."""
        table: dict[tuple[tuple[int, ...], int], float] = {}
        for prefixes, tokens in _requests(answers):
            whole = [[*prompt, *prefix] for prefix in prefixes]
            for prefix, place in zip(prefixes, self.server.following(whole, temperature, named=tokens), strict=True):
                for token in tokens:
                    certain = 0.0 if token == place.ids[0] else -np.inf
                    table[prefix, token] = place.tops[0][token] if temperature else certain
        return [[table[tuple(ids[:place]), token] for place, token in enumerate(ids)] for ids in answers]

    def _entropy_along(self, prompt: Sequence[int], ids: Sequence[int]) -> float | None:
        prefixes = [[*prompt, *ids[:place]] for place in range(len(ids))]
        if not prefixes:
            return None
        return self._entropy([place.tops[0] for place in self.server.following(prefixes, 1.0, top=self._top)])

    def _entropy(self, tops: Sequence[Mapping[int, float]]) -> float | None:
        """The mean entropy over the places of a response, where its bounds are within TOLERANCE."""
        expected = self._vocabulary if self._top < 0 else self._top
        if any(len(top) < expected for top in tops):  # other requests kept the server from giving them (`_choose`)
            return None
        bounds = np.array([entropy_bounds(list(top.values()), self._top, self._vocabulary) for top in tops]).mean(0)
        return float(bounds.mean()) if bounds[1] - bounds[0] <= TOLERANCE else None

    def _kept(self, prompt: list[int]) -> tuple[int, ...] | None:
        return tuple(prompt) if self.settings.keep_prompts else None

    def _check(self, prompts: Sequence[Sequence[int]]) -> None:
        """Once: whether the server's log-probs are what they should be."""
        if self._trusted:
            return
        try:
            self.server.check(
                min(prompts, key=len), 1.0 if self.settings.mode == "choose" else self.settings.temperature
            )
        except RefusedError as refused:
            raise WorldlineError(str(refused)) from None
        self._trusted = True

    def _all(
        self, ask: Callable[[int], Answer], rows: Sequence[int], most: int = _MOST_SCORED
    ) -> list[Answer | RefusedError]:
        """What `ask` gives for each row, `most` at once; a request refused for its own sake gives the refusal."""

        def attempt(row: int) -> Answer | RefusedError:
            try:
                return ask(row)
            except RefusedError as refused:
                return refused

        with ThreadPoolExecutor(min(self.settings.api_concurrency or most, len(rows))) as pool:
            return list(pool.map(attempt, rows))


class ScoringServedPolicy(ServedPolicy):
    """A served language model that gives log pi(a|h), as `ScoringHFPolicy` does."""

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[Floats]:
        choosing = self.settings.mode == "choose"
        pairs = zip(turns, actions, strict=True)
        listed = [admissible(turn, self.name) if choosing else candidates for turn, candidates in pairs]
        totals = self._totals(turns, listed, 1.0 if choosing else self.settings.temperature)
        if not choosing:
            return totals
        return among(listed, [preferences(values, self.settings.temperature, self.name) for values in totals], actions)

    def _totals(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]], temperature: float) -> list[Floats]:
        """The log-probability of each action's tokens; what several turns have in common is requested once."""
        prompts = [tuple(prompt) for prompt in self.encoder.prompts(turns)]
        wanted: dict[tuple[int, ...], dict[str, None]] = {}
        for prompt, candidates in zip(prompts, actions, strict=True):
            wanted.setdefault(prompt, {}).update(dict.fromkeys(candidates))
        if not wanted:
            return []
        self._check(prompts)
        distinct = [(prompt, list(candidates)) for prompt, candidates in wanted.items()]

        def score(row: int) -> dict[str, float]:
            prompt, candidates = distinct[row]
            scores = self._scored(prompt, self.encoder.actions(candidates), temperature)
            return {action: sum(values) for action, values in zip(candidates, scores, strict=True)}

        tables: dict[tuple[int, ...], dict[str, float]] = {}
        for (prompt, _), totals in zip(distinct, self._all(score, range(len(distinct))), strict=True):
            if isinstance(totals, RefusedError):
                raise WorldlineError(str(totals))
            checked(list(totals.values()), self.name)
            tables[prompt] = totals
        return [
            np.array([tables[prompt][action] for action in candidates], dtype=np.float64)
            for prompt, candidates in zip(prompts, actions, strict=True)
        ]


def entropy_bounds(logprobs: Sequence[float], top: int, vocabulary: int) -> tuple[float, float]:
    """The least and the largest entropy (nats) of a distribution over `vocabulary`, given some of its log-probs.

    The `top` largest of these are the largest of all (-1: all are given). The rest of the mass, m, then lies on tokens
    that are no likelier than the last of those: its share of the entropy is at least -m log of that probability (of m
    itself, if that is smaller), and at most that of an even spread.
    """
    given = np.sort(np.array(logprobs, dtype=np.float64))[::-1]
    p = np.exp(given)
    own = float(-(p[p > 0] * given[p > 0]).sum())
    rest, tokens = 1.0 - float(p.sum()), vocabulary - len(p)
    if top < 0 or tokens <= 0 or rest <= 0:
        return own, own
    likeliest = min(float(p[top - 1]) if top else 1.0, rest)
    return own - rest * float(np.log(likeliest)), own + rest * float(np.log(tokens / rest))


def _requests(
    answers: Sequence[Sequence[int]],
) -> Iterator[tuple[list[tuple[int, ...]], list[int]]]:
    """Prefixes of the answers with the tokens that follow any of them, in parts small enough for one request."""
    following: dict[tuple[int, ...], dict[int, None]] = {}
    for ids in answers:
        for place, token in enumerate(ids):
            following.setdefault(tuple(ids[:place]), {})[token] = None
    parts = [
        (prefix, list(tokens)[start : start + MOST_NAMED])
        for prefix, tokens in following.items()
        for start in range(0, len(tokens), MOST_NAMED)
    ]
    prefixes: list[tuple[int, ...]] = []
    named: dict[int, None] = {}
    for prefix, tokens in parts:
        if prefixes and (len(prefixes) == _MOST_PREFIXES or len(named | dict.fromkeys(tokens)) > MOST_NAMED):
            yield prefixes, list(named)
            prefixes, named = [], {}
        prefixes.append(prefix)
        named |= dict.fromkeys(tokens)
    if prefixes:
        yield prefixes, list(named)


def _generation(path: str) -> Any:
    """The checkpoint's generation config; None where it has none."""
    try:
        return transformers.GenerationConfig.from_pretrained(path)
    except OSError:
        return None
