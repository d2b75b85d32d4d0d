"""Linear models over hashed features: rows of them in groups, and fitting on the few buckets that are ever used."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Ids = npt.NDArray[np.int64]
_RATE, _DECAY, _BATCH = 0.02, 1e-3, 16


class Hashed(nn.Module):
    """A score for each row of hashed features, 0 for none."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag(buckets, 1, mode="sum", padding_idx=0)
        nn.init.zeros_(self.weights.weight)

    def score(self, features: Tensor) -> Tensor:
        """features (n, F) -> (n,)."""
        scores: Tensor = self.weights(features)
        return scores.squeeze(-1)


@dataclass(frozen=True)
class Rows:
    """Features (N, F) of all rows of all groups, `sizes` rows in each group, and columns of numbers beside them."""

    features: Tensor
    sizes: Tensor
    columns: tuple[Tensor, ...]

    @classmethod
    def of(cls, tables: Sequence[Ids], *columns: Sequence[npt.NDArray[np.generic]]) -> "Rows":
        return cls(
            torch.from_numpy(stacked(tables)),
            torch.tensor([len(table) for table in tables]),
            tuple(torch.from_numpy(np.concatenate(column)) for column in columns),
        )

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor, tuple[Tensor, ...]]]:
        """Features, the group of each row within the batch, and the columns, `size` groups at a time."""
        starts = self.sizes.cumsum(0) - self.sizes
        for groups in torch.split(torch.randperm(len(self.sizes), generator=generator), size):
            sizes = self.sizes[groups]
            group = torch.repeat_interleave(sizes)
            rows = torch.arange(len(group)) + (starts[groups] - (sizes.cumsum(0) - sizes))[group]
            yield self.features[rows], group, tuple(column[rows] for column in self.columns)


Loss = Callable[[Tensor, Tensor, tuple[Tensor, ...]], Tensor]


def fit_hashed(model: Hashed, rows: Rows, loss: Loss, *, epochs: int, seed: int) -> None:
    """Minimise `loss(features, group, columns)` over the model's parameters; untouched buckets stay as they are."""
    used = torch.unique(torch.cat([torch.zeros(1, dtype=torch.long), rows.features.flatten()]))
    rows = Rows(torch.searchsorted(used, rows.features), rows.sizes, rows.columns)
    whole = model.weights
    model.weights = nn.EmbeddingBag.from_pretrained(whole.weight.detach()[used], False, mode="sum", padding_idx=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY)
    generator = torch.Generator().manual_seed(seed)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, max(1, epochs * -(-len(rows.sizes) // _BATCH)))
    for _ in range(epochs):
        for batch in rows.batches(_BATCH, generator):
            optimizer.zero_grad()
            loss(*batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        whole.weight[used] = model.weights.weight
    model.weights = whole


def stacked(tables: Sequence[Ids]) -> Ids:
    """Tables of different widths, one below the other, 0 where there is nothing."""
    height, width = sum(len(table) for table in tables), max((table.shape[1] for table in tables), default=0)
    out = np.zeros((height, width), dtype=np.int64)
    at = 0
    for table in tables:
        out[at : at + len(table), : table.shape[1]] = table
        at += len(table)
    return out


def padded_ids(rows: Sequence[Sequence[int] | Ids]) -> Ids:
    """Rows of ids of different length as one (n, longest) table, 0 where there is nothing."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table
