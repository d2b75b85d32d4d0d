"""Causal language models that transformers loads, as policies.

`generate` samples free text and parses the action out of it; `choose` samples among the admissible actions with
pi(a | h) = softmax of (log-probability of the action's tokens and end token) / temperature. A policy of either kind
that answers with the bare action can also score actions. World-model heads, training and LoRA live in other packages;
`from_model` wraps a model that is being trained.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors import SafetensorError

from worldline.policies.language_model import attention
from worldline.policies.language_model.answering import (
    among,
    checked,
    encoder_of,
    end_ids,
    generated,
    longest_response,
    preferences,
)
from worldline.policies.language_model.checkpoint import DATA_ONLY, locate
from worldline.policies.language_model.decoding import Response, Sampling, generate
from worldline.policies.language_model.device import usable_device
from worldline.policies.language_model.encoding import Encoder, Tokenizer
from worldline.policies.language_model.forward import (
    Model,
    Prefix,
    bare,
    chunks,
    inference,
    is_recurrent,
    read,
    shares_prefix,
    without_dropout,
)
from worldline.policies.language_model.in_place import InPlaceSampler, sampler_of
from worldline.policies.language_model.prefix_cache import PrefixCache
from worldline.policies.language_model.scoring import ScoredBatch, score
from worldline.policies.mixing import admissible, pick
from worldline.policies.prompts import Counts
from worldline.policies.settings import PolicyConfig
from worldline.types import Decision, InputError, Turn, uniform

Floats = npt.NDArray[np.float64]


def load(path: str, settings: PolicyConfig) -> "HFPolicy":
    """The checkpoint in folder `path` (or of that name on the model hub) as a policy."""
    where = locate(path, f"hf:{path}")
    device = usable_device(settings.device)
    try:
        with _quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **DATA_ONLY)
            dtype = getattr(torch, settings.dtype)
            model = transformers.AutoModelForCausalLM.from_pretrained(where, dtype=dtype, **DATA_ONLY)
    except (OSError, ValueError, LookupError, TypeError, ImportError, RuntimeError, SafetensorError) as error:
        raise InputError(f"hf:{path}: cannot be loaded as a causal language model: {_in_brief(error)}") from None
    return from_model(model.to(device), tokenizer, settings, name=f"hf:{path}")


def from_model(
    model: Model,
    tokenizer: Tokenizer,
    settings: PolicyConfig,
    name: str = "hf",
    sampler: InPlaceSampler | None = None,
) -> "HFPolicy":
    """A loaded model as a policy; it is a ScoringPolicy when its response is the action itself or a choice.

    `sampler`: another policy's of the same model, with all that it has recorded.
    """
    if is_recurrent(model):
        raise InputError(
            f"{name}: models with recurrent layers cannot be read in padded batches; use an attention model"
        )
    attention.prepare(bare(model))
    encoder = encoder_of(model, tokenizer, settings, name)
    scores = settings.mode == "choose" or encoder.template.one_line
    return (ScoringHFPolicy if scores else HFPolicy)(model, encoder, settings, name, sampler)


class HFPolicy:
    """A language model that acts on a batch of turns at a time."""

    def __init__(
        self,
        model: Model,
        encoder: Encoder,
        settings: PolicyConfig,
        name: str,
        sampler: InPlaceSampler | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.encoder = encoder
        self.settings = settings
        self.max_new_tokens = longest_response(encoder, settings)
        self.stops = end_ids(model, encoder)
        self.sampler = sampler or (sampler_of(model) if settings.mode == "generate" else None)
        grows = not encoder.template.chat and settings.cache_gib > 0 and shares_prefix(model)
        self._cache = PrefixCache(model, int(settings.cache_gib * 2**30)) if grows else None
        self._foreseen: dict[int, tuple[Turn, list[int]]] = {}
        """Prompts by the identity of their turn, which is kept so that no other turn can have it."""

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        decisions = {row: decision for batch in self.decide(turns) for row, decision in batch.items()}
        return [decisions[row] for row in range(len(turns))]

    def decide(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
        """Decisions in batches, as responses end; on a GPU the next tokens are under way when a batch is given."""
        with without_dropout(self.model):
            batches = self._choose(turns) if self.settings.mode == "choose" else self._generate(turns)
            while True:
                with torch.inference_mode():  # not while others use what is given
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    def foresee(self, turns: Sequence[Turn]) -> None:
        """Tokenise the prompts of turns that will be given next."""
        for turn, prompt in zip(turns, self.encoder.prompts(turns), strict=True):
            self._foreseen[id(turn)] = turn, prompt

    @property
    def counts(self) -> Counts:
        """How many prompts were encoded, and how many of them were too long."""
        return self.encoder.counts

    def forget(self) -> None:
        """Empty the prefix cache: others need the memory, or weights changed in a way that torch does not count."""
        if self._cache:
            self._cache.forget()

    def _read(self, prompts: Sequence[Sequence[int]]) -> Prefix:
        return self._cache.read(prompts) if self._cache else read(self.model, prompts)

    def _prompts(self, turns: Sequence[Turn]) -> list[list[int]]:
        self.foresee([turn for turn in turns if id(turn) not in self._foreseen])
        prompts = [self._foreseen[id(turn)][1] for turn in turns]
        self._foreseen.clear()
        return prompts

    def _generate(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
        prompts = self._prompts(turns)
        for rows in chunks([len(prompt) + self.max_new_tokens for prompt in prompts], self.settings.batch_tokens):
            for ended in self._respond([prompts[row] for row in rows], [turns[row].seed for row in rows]):
                yield {
                    rows[at]: self._decision(turns[rows[at]], prompts[rows[at]], response)
                    for at, response in ended.items()
                }

    def _respond(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> Iterator[dict[int, Response]]:
        how = Sampling(self.stops, self.max_new_tokens, self.settings.temperature)
        if self.sampler is None:
            return iter([dict(enumerate(generate(self.model, self._read(prompts), seeds, how)))])
        if self._cache is None:
            return self.sampler.stream(prompts, seeds, how)
        return self.sampler.stream_behind(self._cache.read(prompts), seeds, how)

    def _decision(self, turn: Turn, prompt: list[int], response: Response) -> Decision:
        checked(response.logprobs, self.name)
        entropy, kept = float(np.mean(response.entropies)), prompt if self.settings.keep_prompts else None
        return generated(self.encoder, turn, response.ids, response.logprobs, entropy, kept)

    def _choose(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
        prompts = self._prompts(turns)
        choices = [admissible(turn, self.name) for turn in turns]
        tokens = [self.encoder.actions(actions) for actions in choices]
        decisions: dict[int, Decision] = {}
        for scores in self._score(prompts, tokens, 1.0):
            logps = [self._preferences([t.sum() for t in token_logprobs]) for token_logprobs in scores.token_logprobs]
            draws = [uniform(turns[row].seed, "choose") for row in scores.rows]
            picks = [pick(np.exp(logp), draw) for logp, draw in zip(logps, draws, strict=True)]
            entropies = scores.entropy(picks)
            for i, (row, chosen) in enumerate(zip(scores.rows, picks, strict=True)):
                action = choices[row][chosen]
                decisions[row] = Decision(
                    action=action,
                    response=self.encoder.template.answer(action),
                    logprob=float(logps[i][chosen]),
                    token_ids=tuple(tokens[row][chosen]),
                    token_logprobs=tuple(scores.token_logprobs[i][chosen].tolist()),
                    entropy=entropies[i],
                    prompt_ids=tuple(prompts[row]) if self.settings.keep_prompts else None,
                )
        yield decisions

    def _score(
        self, prompts: Sequence[list[int]], answers: Sequence[list[list[int]]], temperature: float
    ) -> Iterator[ScoredBatch]:
        budget = self.settings.batch_tokens
        return score(self.model, self._read, prompts, answers, temperature=temperature, batch_tokens=budget)

    def _preferences(self, totals: Sequence[float] | Floats) -> Floats:
        return preferences(totals, self.settings.temperature, self.name)


class ScoringHFPolicy(HFPolicy):
    """A language model that gives log pi(a|h): its response is the action, or it chooses among the actions.

    When it generates, the probability is that of the tokenizer's own encoding of the action and the end token.
    Other encodings of the same text, which a model hardly ever samples, are not added.
    """

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[Floats]:
        choosing = self.settings.mode == "choose"
        pairs = zip(turns, actions, strict=True)
        listed = [admissible(turn, self.name) if choosing else candidates for turn, candidates in pairs]
        with inference(self.model):
            totals = self._totals(turns, listed, 1.0 if choosing else self.settings.temperature)
        if not choosing:
            return totals
        return among(listed, [self._preferences(values) for values in totals], actions)

    def _totals(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]], temperature: float) -> list[Floats]:
        prompts = self.encoder.prompts(turns)
        tokens = [self.encoder.actions(candidates) for candidates in actions]
        totals: dict[int, Floats] = {}
        # Prompts of one logged episode extend one another: read in order, each reuses the cache of the one before.
        for wave in self._cache.order(prompts) if self._cache else [range(len(turns))]:
            for scores in self._score([prompts[row] for row in wave], [tokens[row] for row in wave], temperature):
                for row, token_logprobs in zip(scores.rows, scores.token_logprobs, strict=True):
                    totals[wave[row]] = np.array([t.sum() for t in token_logprobs])
        return [totals[row] for row in range(len(turns))]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars and warnings."""
    log = transformers.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def _in_brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
