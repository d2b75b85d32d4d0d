"""Micro-batches of sequences: padded or packed tokens, and which states predict which tokens.

Sequences of similar length go together, as many as a token budget holds. Padding is on the right, where no real token
can see it under the causal mask, so no attention mask is needed. Packed, the sequences stand one after another in one
row, and attention keeps them apart. A batch carries no advantages and no weights: it says where its tokens stand in the
update's flat arrays, and the update looks them up there. So padding has no weight.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress

import numpy as np
import torch
from torch import Tensor

from worldline.paw.rows import StepRow
from worldline.paw.sequences import TokenSequence


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward pass. `*_at` index the flattened (sequences x length) states that predict the tokens beside them."""

    tokens: Tensor  # (sequences, length)
    action_at: Tensor  # (actions,)
    action: Tensor  # (actions,) response tokens
    action_index: Tensor  # (actions,) place of the token among all response tokens of the update
    world_at: Tensor  # (targets,)
    world: Tensor  # (targets,) observation tokens
    world_row: Tensor  # (targets,) place of the row in the update
    world_noisy: Tensor  # (targets,) 0 or 1, for the noise diagnostic
    world_share: Tensor  # (targets,) 1 / |o_{t+1}| of the token's row
    lengths: tuple[int, ...] = ()
    """Those of the sequences in a packed row; none where each has a row of its own."""

    def to(self, device: torch.device) -> "Batch":
        tensors = {name: getattr(self, name) for name in self.__slots__ if name != "lengths"}
        return replace(self, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


def action_starts(rows: Sequence[StepRow]) -> list[int]:
    """Where each row's response begins in the flat arrays of response tokens; last, how many there are."""
    return [0, *accumulate(len(row.response) for row in rows)]


def pack(
    rows: Sequence[StepRow],
    starts: Sequence[int],
    chosen: Sequence[TokenSequence],
    world: Sequence[bool] | None,
    *,
    packed: bool = False,
) -> Batch:
    """Some sequences of the update's rows as one batch; `world` as the sequences were made with.

    `packed`: they stand one after another in one row, without padding.
    """
    lengths = [len(sequence.tokens) for sequence in chosen]
    longest = max(lengths, default=1)
    tokens = np.zeros((1, sum(lengths)) if packed and chosen else (max(1, len(chosen)), longest), dtype=np.int64)
    firsts = [0, *accumulate(lengths)] if packed else range(0, len(chosen) * longest, longest)
    columns: dict[str, list[int]] = {name: [] for name in Batch.__slots__[1:-2]}
    shares: list[float] = []
    for first_token, sequence in zip(firsts, chosen, strict=False):
        tokens.reshape(-1)[first_token : first_token + len(sequence.tokens)] = sequence.tokens
        for index in sequence.members:
            row = rows[index]
            before = first_token + len(row.prompt) - 1  # the state before a token predicts it
            columns["action_at"] += range(before, before + len(row.response))
            columns["action"] += row.response
            columns["action_index"] += range(starts[index], starts[index] + len(row.response))
            if world is not None and world[index] and (count := row.targets):
                for name, column in _world_columns(row, before + len(row.response)).items():
                    columns[name] += column
                columns["world_row"] += [index] * count
                shares += [1 / count] * count
    # Through numpy, which reads long lists several times faster than torch.
    indices = {name: torch.from_numpy(np.array(column, dtype=np.int64)) for name, column in columns.items()}
    return Batch(
        tokens=torch.from_numpy(tokens),
        world_share=torch.from_numpy(np.array(shares, dtype=np.float32)),
        lengths=tuple(lengths) if packed else (),
        **indices,
    )


def _world_columns(row: StepRow, first: int) -> dict[str, Iterable[int]]:
    """The observation tokens after a response, of which the first is predicted at `first`."""
    columns: dict[str, Iterable[int]] = {
        "world_at": range(first, first + len(row.observed)),
        "world": row.continuation,
        "world_noisy": row.noisy,
    }
    if row.targets == len(row.observed):
        return columns
    return {name: compress(column, row.observed) for name, column in columns.items()}  # actions stand between them


def micro_batches(
    sequences: Sequence[TokenSequence], budget: int, *, packed: bool = False
) -> list[list[TokenSequence]]:
    """Micro-batches of at most `budget` tokens, padding included (a longer sequence goes alone), longest first.

    `packed`: without padding; a sequence goes into the first batch that has room for it.
    """
    batches: list[list[TokenSequence]] = []
    room: list[int] = []  # of packed batches
    for sequence in sorted(sequences, key=lambda sequence: (-len(sequence.tokens), sequence.members)):
        size = len(sequence.tokens)
        if packed:
            place = next((place for place, left in enumerate(room) if left >= size), len(room))
        else:
            fits = batches and (len(batches[-1]) + 1) * len(batches[-1][0].tokens) <= budget
            place = len(batches) - bool(fits)
        if place == len(batches):
            batches.append([])
            room.append(budget)
        batches[place].append(sequence)
        room[place] -= size
    return batches


def deal(batches: Sequence[list[TokenSequence]], rank: int, ranks: int) -> list[list[TokenSequence]]:
    """This rank's share. All ranks get equally many, for they must meet at every collective; the rest are empty."""
    most = -(-len(batches) // ranks)
    share = list(batches[rank::ranks])
    return share + [[] for _ in range(most - len(share))]


def mini_batches(rows: Sequence[StepRow], size: int, generator: torch.Generator) -> list[list[int]]:
    """All rows once, in parts of nearly equal size; with size 0 in one part.

    Episodes are shuffled, not rows: an episode's rows stay together, where they can share a sequence.
    """
    episodes: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        episodes.setdefault(row.trajectory, []).append(index)
    shuffled = [list(episodes.values())[k] for k in torch.randperm(len(episodes), generator=generator).tolist()]
    order = [index for episode in shuffled for index in episode]
    count, parts = len(rows), mini_batch_count(len(rows), size)
    return [order[count * k // parts : count * (k + 1) // parts] for k in range(parts)]


def mini_batch_count(count: int, size: int) -> int:
    """round(count / size), at least one: no small remainder gets a step of its own."""
    return max(1, round(count / size)) if size else 1
