"""Memory that stays: batches of every shape lie in it, and it grows only when one does not fit."""

import pytest
import torch
from transformers import LlamaConfig

from worldline.policies.language_model.memory import CacheShape, KeyValueMemory, PlacedLayer, WrittenLayer, cache_of

SHAPE = CacheShape(layers=2, heads=3, size=4, dtype=torch.float32, device=torch.device("cpu"))


def test_it_grows_when_a_batch_does_not_fit_and_stays_where_it_is_otherwise() -> None:
    memory = KeyValueMemory(SHAPE)
    assert not memory.fits(2, 10)
    memory.grow(2, 10)
    first = memory.batch(2, 10)
    assert first.shape == (2, 2, 2, 3, 10, 4)
    assert not first.any()
    assert memory.fits(4, 5)
    assert memory.fits(2, 90)  # episodes grow
    assert not memory.fits(2, 91)
    other = memory.batch(4, 5)
    assert other.data_ptr() == first.data_ptr()
    other.fill_(torch.nan)
    assert first.isnan().all()
    memory.clear()
    assert not first.any()


def test_what_is_taken_beyond_the_need_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldline.policies.language_model.memory.SPARE_BYTES", 2 * 2 * 3 * 4 * 4 * 7)  # seven tokens
    memory = KeyValueMemory(SHAPE)
    memory.grow(2, 10)
    assert memory.fits(1, 27)
    assert not memory.fits(1, 28)


def test_layers_write_where_they_are_given_room() -> None:
    keys, values = torch.zeros(2, 1, 3, 5, 4)
    at = torch.tensor([2])
    new = torch.randn(1, 3, 1, 4)
    seen, _ = PlacedLayer(keys, values, at).update(new, 2 * new)
    assert seen is keys
    assert torch.equal(keys[:, :, 2:3], new)
    assert torch.equal(values[:, :, 2:3], 2 * new)
    assert not keys[:, :, [0, 1, 3, 4]].any()
    whole = torch.randn(1, 3, 5, 4)
    layer = WrittenLayer(keys, values)
    assert layer.update(whole, -whole)[0] is whole
    assert torch.equal(keys, whole)
    assert torch.equal(values, -whole)
    assert layer.get_seq_length() == 0  # a reading begins at the first token


def test_a_cache_of_layers_is_what_transformers_updates() -> None:
    class Model:
        config = LlamaConfig(num_hidden_layers=2)

    keys, values = torch.zeros(2, 1, 3, 5, 4)
    cache = cache_of(Model(), [WrittenLayer(keys, values) for _ in range(2)])
    cache.update(torch.ones(1, 3, 5, 4), torch.ones(1, 3, 5, 4), 1)
    assert keys.all()
