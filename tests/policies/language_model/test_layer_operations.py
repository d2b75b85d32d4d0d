"""Each operation of a layer against its definition, written out in loops."""

import math

import torch

from worldline.policies.language_model.layer_operations import TorchOperations

ROWS, TIME, QUERIES, KEYS, SIZE = 2, 5, 4, 2, 6


def angles(time: int) -> torch.Tensor:
    return torch.rand(ROWS, time, SIZE // 2) * 7


def turned(head: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Pairs of numbers, half a head apart, as complex numbers times exp(i angle)."""
    pairs = torch.complex(head[: SIZE // 2], head[SIZE // 2 :]) * torch.exp(1j * angle)
    return torch.cat([pairs.real, pairs.imag])


def test_reading_turns_queries_and_keys_and_notes_keys_and_values() -> None:
    torch.manual_seed(0)
    heads, angle = torch.randn(ROWS, TIME, QUERIES + 2 * KEYS, SIZE), angles(TIME)
    keys, values = (torch.zeros(ROWS, KEYS, TIME, SIZE) for _ in range(2))
    both = angle.repeat(1, 1, 2)
    query, key, value = TorchOperations().read(heads.clone(), both.cos(), both.sin(), keys, values)
    for row in range(ROWS):
        for time in range(TIME):
            own = heads[row, time]
            expected = torch.stack([turned(head, angle[row, time]) for head in own[: QUERIES + KEYS]])
            torch.testing.assert_close(query[row, time], expected[:QUERIES])
            torch.testing.assert_close(key[row, time], expected[QUERIES:])
            torch.testing.assert_close(keys[row, :, time], expected[QUERIES:])
            torch.testing.assert_close(value[row, time], own[QUERIES + KEYS :])
            torch.testing.assert_close(values[row, :, time], own[QUERIES + KEYS :])


def test_a_step_is_a_softmax_over_what_is_not_hidden() -> None:
    torch.manual_seed(0)
    heads, angle = torch.randn(ROWS, 1, QUERIES + 2 * KEYS, SIZE), angles(1)
    keys, values = (torch.randn(ROWS, KEYS, TIME, SIZE) for _ in range(2))
    hidden = torch.zeros(ROWS, 1, 1, TIME)
    hidden[0, ..., 1], hidden[1, ..., 4] = -torch.inf, -torch.inf
    at, both = 3, angle.repeat(1, 1, 2)
    noted = keys.clone(), values.clone()
    seen = TorchOperations().step(heads.clone(), both.cos(), both.sin(), *noted, torch.tensor([at]), hidden)
    for row in range(ROWS):
        own = heads[row, 0]
        for number in range(KEYS):
            keys[row, number, at] = turned(own[QUERIES + number], angle[row, 0])
            values[row, number, at] = own[QUERIES + KEYS + number]
        for number in range(QUERIES):
            shared, query = number // (QUERIES // KEYS), turned(own[number], angle[row, 0])
            weights = [
                math.exp(float(query @ keys[row, shared, place]) / math.sqrt(SIZE) + float(hidden[row, 0, 0, place]))
                for place in range(TIME)
            ]
            expected = sum(weight * values[row, shared, place] for place, weight in enumerate(weights)) / sum(weights)
            torch.testing.assert_close(seen[row, 0, number * SIZE : (number + 1) * SIZE], expected)
    torch.testing.assert_close(noted[0], keys)
    torch.testing.assert_close(noted[1], values)


def test_a_gate() -> None:
    gate, up = torch.tensor([-2.0, 0.0, 3.0]), torch.tensor([1.0, 5.0, -2.0])
    expected = [x / (1 + math.exp(-x)) * y for x, y in zip(gate.tolist(), up.tolist(), strict=True)]
    torch.testing.assert_close(TorchOperations().gated(gate.clone(), up.clone()), torch.tensor(expected))
