"""Responses sampled in memory that stays, so that a GPU replays what was recorded once.

Rows and lengths are rounded up to buckets, so that a few recordings serve every tick of every rollout, and weights that
change in place keep them valid. Equal prompts are read once. The growing caches of `decoding` sample the same
responses; they serve a CPU, and models whose attention is not of this kind.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from worldline.policies.language_model import attention
from worldline.policies.language_model.decoding import Response, Sampling, generate
from worldline.policies.language_model.draws import token_draws
from worldline.policies.language_model.forward import (
    Model,
    Prefix,
    RoomyLayer,
    bare,
    empty_cache,
    forward,
    inference,
    shares_prefix,
)
from worldline.policies.language_model.memory import CacheShape, KeyValueMemory
from worldline.policies.language_model.reader import Ids, PromptReader, parts
from worldline.policies.language_model.recording import Recorder, sent
from worldline.policies.language_model.stack import stack_of
from worldline.policies.language_model.stepper import BLOCK, TokenStepper, stepping_rows, stepping_time

MOST_KEPT = 64
"""Shapes of each kind that stay recorded."""

Responses = Iterator[dict[int, Response]]
"""Responses that ended at about the same time, by the place of their prompt."""
Key = TypeVar("Key")
Kept = TypeVar("Kept")


def respond_behind(
    model: Model, sampler: "InPlaceSampler | None", prefix: Prefix, seeds: Sequence[int], how: Sampling
) -> list[Response]:
    """A response to each prompt of `prefix`, which is changed: in place where there is a sampler for that."""
    return sampler.respond_behind(prefix, seeds, how) if sampler else generate(model, prefix, seeds, how)


def sampler_of(model: Model) -> "InPlaceSampler | None":
    """A sampler for a model on a GPU; None where another way is needed."""
    return InPlaceSampler(model) if model.device.type == "cuda" and suits(model) else None


def suits(model: Model) -> bool:
    """Whether the model has full attention, takes our masks unchanged, lies on one device, and has a plain head."""
    plain = bare(model)
    text = plain.config.get_text_config()
    stretched = (getattr(text, "rope_parameters", None) or {}).get("rope_type") in ("dynamic", "longrope")
    if stretched or not shares_prefix(model) or not attention.masked_by_torch(plain):
        return False
    if len({weight.device for weight in model.parameters()}) > 1:
        return False
    with inference(model):
        cache, ids = empty_cache(model), torch.tensor([[1, 2]], device=model.device)
        ones = torch.ones_like(ids)
        logits = forward(model, ids, ones, ones.cumsum(-1) - 1, cache)
        shapes = {layer.keys.shape for layer in cache.layers} | {layer.values.shape for layer in cache.layers}
        if len(shapes) > 1 or any(type(layer) is not RoomyLayer for layer in cache.layers):
            return False
        states = plain.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        headed = plain.get_output_embeddings()(states).float()
    return bool(torch.allclose(logits, headed, rtol=0.02, atol=0.02 * float(headed.abs().max())))


class InPlaceSampler:
    """Samples responses of one model that `suits`, a batch at a time."""

    def __init__(self, model: Model) -> None:
        self._model = model
        config = bare(model).config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = CacheShape(config.num_hidden_layers, heads, size, model.dtype, model.device)
        self._stack, self._recorder = stack_of(model), Recorder(model.device)
        self._reading, self._stepping = KeyValueMemory(shape), KeyValueMemory(shape)
        self._readers: dict[tuple[int, int], PromptReader] = {}
        self._steppers: dict[tuple[int, int, float], TokenStepper] = {}
        vocabulary = bare(model).get_output_embeddings().weight.shape[0]
        self._ends = torch.zeros(vocabulary, dtype=torch.bool, device=model.device)
        self._stops: Collection[int] = ()
        self._weights: list[int] = []
        self._batch, self._spoilt = 0, False
        """Whether memory may hold what is no number: a batch had it, or was left before its end."""
        self._numbers = True
        """Whether all that this batch has drawn so far are numbers, beyond the ends of responses, too."""

    def respond(self, prompts: Sequence[Ids], seeds: Sequence[int], how: Sampling) -> list[Response]:
        """A response to each prompt."""
        return _in_order(self.stream(prompts, seeds, how))

    def respond_behind(self, prefix: Prefix, seeds: Sequence[int], how: Sampling) -> list[Response]:
        """A response to each prompt that was read into `prefix`, which stays as it is."""
        return _in_order(self.stream_behind(prefix, seeds, how))

    def stream(self, prompts: Sequence[Ids], seeds: Sequence[int], how: Sampling) -> Responses:
        """The responses as they end, by their prompt's place. No other may begin before the last has come."""
        self._prepare()
        device = self._ends.device
        distinct = list(dict.fromkeys(map(tuple, prompts)))
        place = {prompt: at for at, prompt in enumerate(distinct)}
        owner = [place[tuple(prompt)] for prompt in prompts]
        used = max(map(len, distinct))
        stepper = self._stepper(len(prompts), used + how.most, how.temperature)
        for part in parts([len(prompt) for prompt in distinct]):
            reader = self._reader(part.rows, part.length)
            reader.read([distinct[at] for at in part.members])
            spot = {at: row for row, at in enumerate(part.members)}
            rows = [row for row, at in enumerate(owner) if at in spot]
            here, there = (sent(np.array(at), device) for at in (rows, [spot[owner[row]] for row in rows]))
            stepper.cache[..., : part.length, :].index_copy_(2, here, reader.cache.index_select(2, there))
            stepper.logits.index_copy_(0, here, reader.logits.index_select(0, there))
        lengths = sent(np.array([len(prompt) for prompt in prompts]), device)
        stepper.begin(lengths, torch.arange(used, device=device) < lengths[:, None])
        yield from self._responses(stepper, seeds, how)

    def stream_behind(self, prefix: Prefix, seeds: Sequence[int], how: Sampling) -> Responses:
        """The same behind prompts that were read into `prefix`, which stays as it is."""
        self._prepare()
        rows, used = prefix.mask.shape
        stepper = self._stepper(rows, used + how.most, how.temperature)
        for room, layer in zip(stepper.cache, prefix.cache.layers, strict=True):
            room[0, :rows, :, :used] = layer.keys
            room[1, :rows, :, :used] = layer.values
        stepper.logits[:rows] = prefix.logits
        stepper.begin(prefix.lengths, prefix.mask.bool())
        yield from self._responses(stepper, seeds, how)

    def _responses(self, stepper: TokenStepper, seeds: Sequence[int], how: Sampling) -> Responses:
        if how.stops != self._stops:
            self._stops = how.stops
            self._ends.zero_()
            self._ends[sent(np.array(sorted(how.stops), dtype=np.int64), self._ends.device)] = True
        self._spoilt, self._numbers, batch = True, True, self._batch
        for ended in self._ending(stepper, seeds, how):
            yield ended
            if batch != self._batch:
                raise RuntimeError("another batch was begun before the last response of this one: they share memory")
        self._spoilt = not self._numbers

    def _ending(self, stepper: TokenStepper, seeds: Sequence[int], how: Sampling) -> Responses:
        going = {row: Response() for row in range(len(seeds))}
        rows, time = list(going), stepper.cache.shape[4]
        for first in range(0, how.most, BLOCK):
            count = min(BLOCK, how.most - first)
            stepper.load(token_draws([seeds[row] for row in rows], first, count))
            for look in stepper.steps(first, count):
                drawn = look.logprobs[: look.lengths[: len(rows)].max(), : len(rows)]
                self._numbers = self._numbers and not np.isnan(drawn).any()
                ended = {row: at for at, row in enumerate(rows) if look.ended[at] and row in going}
                for row, at in ended.items():
                    look.add(at, going[row])
                if ended:
                    yield {row: going.pop(row) for row in ended}
                if not going:
                    return
            kept = [at for at, row in enumerate(rows) if row in going]
            for at in kept:
                look.add(at, going[rows[at]])
            if stepping_rows(len(kept)) <= stepper.cache.shape[2] // 2:  # copying costs as much as some steps
                smaller = self._stepper(len(kept), time, how.temperature)
                smaller.go_on(stepper, torch.tensor(kept, device=self._ends.device))
                stepper, rows = smaller, [rows[at] for at in kept]
        yield going

    def _reader(self, rows: int, length: int) -> PromptReader:
        if not self._reading.fits(rows, length):
            self._readers.clear()
            self._reading.grow(rows, length)
        return _kept(
            self._readers,
            (rows, length),
            lambda: PromptReader(self._model, self._stack, self._reading.batch(rows, length), self._recorder),
        )

    def _stepper(self, prompts: int, most: int, temperature: float) -> TokenStepper:
        rows, time = stepping_rows(prompts), stepping_time(most)
        if not self._stepping.fits(rows, time):
            self._steppers.clear()
            self._stepping.grow(rows, time)
        return _kept(
            self._steppers,
            (rows, time, temperature),
            lambda: TokenStepper(
                self._model, self._stack, self._stepping.batch(rows, time), self._ends, temperature, self._recorder
            ),
        )

    def _prepare(self) -> None:
        """Weights that change where they lie are seen by what was recorded; weights that lie elsewhere are not."""
        weights = [weight.data_ptr() for weight in self._model.parameters()]
        if weights != self._weights:
            self._readers.clear()
            self._steppers.clear()
        self._weights = weights
        self._batch += 1
        if self._spoilt:
            self._stepping.clear()
        self._spoilt = False


def _in_order(batches: Responses) -> list[Response]:
    responses = {place: response for batch in batches for place, response in batch.items()}
    return [responses[place] for place in sorted(responses)]


def _kept(shapes: dict[Key, Kept], key: Key, make: Callable[[], Kept]) -> Kept:
    """The entry of `key`, made where it is missing; the one that has not been used for longest gives way."""
    entry = shapes.pop(key) if key in shapes else make()
    while len(shapes) >= MOST_KEPT:
        del shapes[next(iter(shapes))]
    shapes[key] = entry
    return entry
