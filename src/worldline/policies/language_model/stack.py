"""The layers of a causal language model, read and stepped through with keys and values in memory that stays.

`TransformersStack` calls the model as it is. `FusedStack` computes layers of Llama's shape itself: a small model's step
is a queue of tiny kernels, and this takes 18 a layer where transformers takes 42. It is used only where it says what
the model says.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from worldline.policies.language_model import attention
from worldline.policies.language_model.forward import Model, bare
from worldline.policies.language_model.layer_operations import Operations, TorchOperations
from worldline.policies.language_model.memory import PlacedLayer, WrittenLayer, cache_of

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Of a layer's number, its heads, and the angles of the positions: what the queries see, (rows, time, width)."""


class Stack(Protocol):
    """`cache` is (layers, 2, rows, heads, time, size), keys before values."""

    def read(self, ids: Tensor, positions: Tensor, cache: Tensor) -> Tensor:
        """States (rows, time, width) of right-padded prompts, whose keys and values are written to `cache`."""

    def step(self, tokens: Tensor, positions: Tensor, cache: Tensor, at: Tensor, hidden: Tensor) -> Tensor:
        """States (rows, width) of one more token, written to `cache` at `at`, behind what `hidden` does not hide."""


def stack_of(model: Model) -> Stack:
    """The faster stack where it fits the model."""
    plain, operations = bare(model), TorchOperations()
    if not FusedStack.fits(plain, operations):
        return TransformersStack(plain)
    return FusedStack(plain, _compiled(plain) or operations)


class TransformersStack:
    """The model's own layers."""

    def __init__(self, plain: Model) -> None:
        self._plain, self._decoder = plain, plain.get_decoder()

    def read(self, ids: Tensor, positions: Tensor, cache: Tensor) -> Tensor:
        layers = [WrittenLayer(keys, values) for keys, values in cache]
        return self._states(ids, attention.causal_mask(self._plain, ids.device), positions, layers)

    def step(self, tokens: Tensor, positions: Tensor, cache: Tensor, at: Tensor, hidden: Tensor) -> Tensor:
        layers = [PlacedLayer(keys, values, at) for keys, values in cache]
        return self._states(tokens[:, None], hidden, positions[:, None], layers)[:, 0]

    def _states(self, ids: Tensor, mask: Tensor | None, positions: Tensor, layers: list[Any]) -> Tensor:
        with attention.without_plans():
            out = self._decoder(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache_of(self._plain, layers),
                use_cache=True,
            )
        states: Tensor = out.last_hidden_state
        return states


class FusedStack:
    """Layers of Llama's shape: RMS norms, rotated queries and keys, a gated MLP. Make it where it `fits`."""

    def __init__(self, plain: Model, operations: Operations) -> None:
        self._decoder, self._operations = plain.get_decoder(), operations
        block = self._decoder.layers[0].self_attn
        self._size: int = block.head_dim
        self._keys = block.k_proj.weight.shape[0] // self._size

    @classmethod
    def fits(cls, plain: Model, operations: Operations) -> bool:
        """Whether the model has no other weights than these, and says the same through its own layers."""
        decoder = plain.get_decoder()
        if not all(hasattr(decoder, name) for name in ("embed_tokens", "layers", "norm", "rotary_emb")):
            return False
        if any(_names(layer) != _EXPECTED or not hasattr(layer.self_attn, "head_dim") for layer in decoder.layers):
            return False
        grid = torch.linspace(-4, 4, 33, device=plain.device)
        if not all(torch.allclose(layer.mlp.act_fn(grid), F.silu(grid)) for layer in decoder.layers):
            return False  # in half precision another gate is within the tolerance below
        ids = torch.arange(72, device=plain.device)[None].repeat(2, 1) % plain.config.get_text_config().vocab_size
        with torch.inference_mode():
            own = decoder(input_ids=ids, use_cache=False).last_hidden_state.float()
            ours = cls(plain, operations)._read_and_stepped(ids).float()
        scale = float(own.abs().max())
        return torch.allclose(own, ours, rtol=0.0, atol=scale * (1e-4 if plain.dtype == torch.float32 else 0.05))

    def read(self, ids: Tensor, positions: Tensor, cache: Tensor) -> Tensor:
        def attend(layer: int, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            return _causal(*self._operations.read(heads, cos, sin, *cache[layer]))

        return self._states(ids, positions, attend)

    def step(self, tokens: Tensor, positions: Tensor, cache: Tensor, at: Tensor, hidden: Tensor) -> Tensor:
        def attend(layer: int, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            keys, values = cache[layer]
            return self._operations.step(heads, cos, sin, keys, values, at, hidden)

        return self._states(tokens[:, None], positions[:, None], attend)[:, 0]

    def _read_and_stepped(self, ids: Tensor) -> Tensor:
        """The states of all tokens but the last by `read`, that of the last by `step`, behind hidden places."""
        rows, time = ids.shape
        layers, like = len(self._decoder.layers), self._decoder.embed_tokens.weight
        read = like.new_zeros(layers, 2, rows, self._keys, time - 1, self._size)
        places = torch.arange(2 * time, device=ids.device)
        states = self.read(ids[:, :-1], places[None, : time - 1], read)
        cache = like.new_zeros(layers, 2, rows, self._keys, 2 * time, self._size)
        cache[..., : time - 1, :] = read
        hidden = like.new_full((rows, 1, 1, 2 * time), -torch.inf)
        hidden[..., : time - 1], hidden[..., -2] = 0.0, 0.0
        last = self.step(ids[:, -1], places[time - 1 : time].expand(rows), cache, places[-2:-1], hidden)
        return torch.cat([states, last[:, None]], dim=1)

    def _states(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        states = self._decoder.embed_tokens(ids)
        cos, sin = self._decoder.rotary_emb(states, positions)
        with attention.without_plans():
            for number, layer in enumerate(self._decoder.layers):
                heads = self._heads(layer.self_attn, _normal(layer.input_layernorm, states))
                _add_linear(states, attend(number, heads, cos, sin), layer.self_attn.o_proj)
                seen = _normal(layer.post_attention_layernorm, states)
                gated = self._operations.gated(layer.mlp.gate_proj(seen), layer.mlp.up_proj(seen))
                _add_linear(states, gated, layer.mlp.down_proj)
        return _normal(self._decoder.norm, states)

    def _heads(self, block: Any, states: Tensor) -> Tensor:
        """Queries, keys and values, (rows, time, heads of all three, size)."""
        parts = (block.q_proj, block.k_proj, block.v_proj)
        weight = torch.cat([part.weight for part in parts])  # one product instead of three; weights may have changed
        bias = None if block.q_proj.bias is None else torch.cat([part.bias for part in parts])
        return F.linear(states, weight, bias).view(*states.shape[:2], -1, self._size)


def _compiled(plain: Model) -> Operations | None:
    """One kernel for each operation, where Triton can compile them for this model."""
    size = plain.get_decoder().layers[0].self_attn.head_dim
    if plain.device.type != "cuda" or find_spec("triton") is None or size < 32 or size & (size - 1):
        return None
    from worldline.policies.language_model.triton_operations import TritonOperations

    try:
        with torch.cuda.device(plain.device):  # Triton launches on the current one
            return TritonOperations() if FusedStack.fits(plain, TritonOperations()) else None
    except Exception:  # Triton calls whatever compiler the machine has, and can fail in as many ways
        return None


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    shared = query.shape[1] // key.shape[1]
    if query.dtype == torch.float32:  # torch's fast kernels share keys in half precision only
        key, value, shared = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1), 1
    attended = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=shared > 1)
    return attended.transpose(1, 2).flatten(2)


def _normal(norm: Any, states: Tensor) -> Tensor:
    return F.rms_norm(states, (states.shape[-1],), norm.weight, norm.variance_epsilon)


def _add_linear(states: Tensor, inputs: Tensor, linear: Any) -> None:
    """states += linear(inputs), in one kernel where there is no bias."""
    if linear.bias is None:
        states.flatten(0, 1).addmm_(inputs.flatten(0, 1), linear.weight.t())
    else:
        states += linear(inputs)


_EXPECTED = {
    *(f"self_attn.{part}_proj.weight" for part in "qkvo"),
    *(f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
}


def _names(layer: Any) -> set[str]:
    """A layer's weights; biases beside a product's weights are computed too."""
    return {name for name, _ in layer.named_parameters() if not name.endswith("_proj.bias")}
