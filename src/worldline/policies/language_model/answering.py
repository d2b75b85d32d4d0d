"""How a language model reads turns and what its tokens mean: the same for a model here and for one behind a server.

Which template, how much history and which end tokens follow from the checkpoint's own files, unless the settings say
otherwise. Forward passes live in `hf`, requests in `served`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline.policies.language_model.checkpoint import TrainedWith
from worldline.policies.language_model.encoding import Encoder, Tokenizer
from worldline.policies.prompts import TEMPLATES
from worldline.policies.settings import PolicyConfig
from worldline.types import Decision, InputError, Turn, WorldlineError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Described:
    """What a checkpoint's files say of a model, without its weights; a loaded model has the same two attributes."""

    config: Any
    generation_config: Any


def encoder_of(model: Any, tokenizer: Tokenizer, settings: PolicyConfig, name: str) -> Encoder:
    """How `model`, loaded or `Described`, reads turns."""
    trained = TrainedWith.of(model, name)
    chosen = settings.prompt
    if chosen == "auto":
        chosen = trained.prompt or ("plain" if tokenizer.chat_template is not None else "transcript")
    history = settings.history if settings.history is not None else trained.history
    encoder = Encoder(tokenizer, TEMPLATES[chosen], settings.max_prompt_tokens, history)
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if context is not None:
        room = context - longest_response(encoder, settings)
        if room < 16:
            raise InputError(
                f"--max-new-tokens: the model's context is {context} tokens, so at most {context - 16} can be new"
            )
        encoder.max_tokens = min(encoder.max_tokens, room)
    return encoder


def longest_response(encoder: Encoder, settings: PolicyConfig) -> int:
    """How many tokens a response may have."""
    return settings.max_new_tokens or encoder.template.max_new_tokens


def end_ids(model: Any, encoder: Encoder) -> set[int]:
    """The tokens that end a response: the template's, and those of the checkpoint's own generation config.

    Some chat models have several. Of the config's only control tokens count: a small model's config often carries the
    id of another tokenizer.
    """
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    control = {token for token, added in encoder.tokenizer.added_tokens_decoder.items() if added.special}
    return encoder.stops() | (control & set(ends if isinstance(ends, list) else [ends]))


def generated(
    encoder: Encoder,
    turn: Turn,
    ids: Sequence[int],
    logprobs: Sequence[float],
    entropy: float | None,
    prompt: Sequence[int] | None,
) -> Decision:
    """The decision that sampled tokens make; `prompt` is kept where there is one."""
    template, text = encoder.template, encoder.decode(ids)
    return Decision(
        action=template.parse(text, turn),
        response=text,
        logprob=sum(logprobs) if template.one_line else None,
        token_ids=tuple(ids),
        token_logprobs=tuple(logprobs),
        entropy=entropy,
        prompt_ids=None if prompt is None else tuple(prompt),
    )


def preferences(totals: Sequence[float] | Floats, temperature: float, name: str) -> Floats:
    """log pi over the admissible actions, from the log-probability of each one's tokens."""
    checked(totals, name)
    values = np.array(totals, dtype=np.float64)
    if temperature == 0.0:
        return np.where(np.arange(len(values)) == values.argmax(), 0.0, -np.inf)
    scaled = values / temperature
    normal: Floats = scaled - np.logaddexp.reduce(scaled)
    return normal


def among(listed: Sequence[Sequence[str]], logps: Sequence[Floats], actions: Sequence[Sequence[str]]) -> list[Floats]:
    """Log-probs of `actions`, from those of all `listed` ones; -inf for an action that is not listed."""
    tables = [dict(zip(choices, logp, strict=True)) for choices, logp in zip(listed, logps, strict=True)]
    return [
        np.array([table.get(action, -np.inf) for action in candidates])
        for table, candidates in zip(tables, actions, strict=True)
    ]


def checked(values: Sequence[float] | Floats, name: str) -> None:
    """WorldlineError where a value is no number."""
    if any(math.isnan(value) for value in values):
        raise WorldlineError(f"{name}: the model's output is NaN: its weights are broken, or --dtype is too narrow")
