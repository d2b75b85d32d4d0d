"""Log-probabilities of given continuations of a prompt; the prompt is read once.

The continuations of a prompt form a prefix tree ("go to cabinet 1" and "go to cabinet 2" part at the last word). All
its nodes are read in one pass behind the cached prompt, each attending to the prompt and to its own ancestors, so
nothing is computed twice and the cache is never copied. Models that take no custom mask and positions (sliding windows,
ALiBi) read each continuation in full instead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from worldline.policies.language_model.forward import (
    Model,
    Prefix,
    chunks,
    entropy,
    forward,
    left_padded,
    positions,
    shares_prefix,
)

Floats = npt.NDArray[np.float64]
Ids = Sequence[int]
_LOGITS = 2**28
"""Most logits held at once (1 GiB)."""


@dataclass(frozen=True)
class Tree:
    """The prefix tree of continuations. Node 0 is the prompt's last token; the rest are continuation tokens."""

    tokens: list[int]
    parents: list[int]
    depths: list[int]
    paths: list[list[int]]
    """For each continuation, the node that predicts each of its tokens."""


def grow(last: int, continuations: Sequence[Ids]) -> Tree:
    """The tree of `continuations` behind a prompt that ends with `last`."""
    tokens, parents, depths = [last], [0], [0]
    children: dict[tuple[int, int], int] = {}
    paths = []
    for continuation in continuations:
        path = [0]
        for token in continuation[:-1]:
            node = children.setdefault((path[-1], token), len(tokens))
            if node == len(tokens):
                tokens.append(token)
                parents.append(path[-1])
                depths.append(depths[path[-1]] + 1)
            path.append(node)
        paths.append(path)
    return Tree(tokens, parents, depths, paths)


@dataclass(frozen=True)
class ScoredBatch:
    """The scored rows of one batch: `token_logprobs[i][c]` belongs to continuation c of row `rows[i]`."""

    rows: list[int]
    token_logprobs: list[list[Floats]]
    _logits: Tensor  # (rows, nodes, vocabulary)
    _paths: list[list[list[int]]]
    _temperature: float

    def entropy(self, picks: Sequence[int]) -> list[float]:
        """Mean entropy over the tokens of one continuation of each row."""
        paths = [paths[pick] for paths, pick in zip(self._paths, picks, strict=True)]
        row = torch.tensor([i for i, path in enumerate(paths) for _ in path], device=self._logits.device)
        node = torch.tensor([n for path in paths for n in path], device=self._logits.device)
        spread = entropy(self._logits[row, node], self._temperature).tolist()
        ends = np.cumsum([len(path) for path in paths])
        return [float(np.mean(spread[end - len(path) : end])) for path, end in zip(paths, ends, strict=True)]


def score(
    model: Model,
    read: Callable[[Sequence[Ids]], Prefix],
    prompts: Sequence[Ids],
    continuations: Sequence[Sequence[Ids]],
    *,
    temperature: float,
    batch_tokens: int,
) -> Iterator[ScoredBatch]:
    """Log-probabilities, at `temperature`, of every token of every continuation of every prompt, batch by batch.

    `read` reads prompts with this model, with or without a prefix cache.
    """
    shares = shares_prefix(model)
    trees = [grow(prompt[-1], options) for prompt, options in zip(prompts, continuations, strict=True)]
    vocabulary = model.config.get_text_config().vocab_size
    sizes = [
        # A row counts its tokens, or its share of the most logits held at once if that is more.
        max(len(prompt) + len(tree.tokens), len(tree.tokens) * vocabulary * batch_tokens // _LOGITS)
        for prompt, tree in zip(prompts, trees, strict=True)
    ]
    for rows in chunks(sizes, batch_tokens):
        heads, grown = [prompts[row][:-1] for row in rows], [trees[row] for row in rows]
        logits = _tree_logits(model, read(heads), grown) if shares else _row_logits(model, heads, grown, batch_tokens)
        yield _scored(rows, logits, grown, [continuations[row] for row in rows], temperature)


def _tree_logits(model: Model, prefix: Prefix, trees: Sequence[Tree]) -> Tensor:
    """Logits at every node of every tree, (rows, nodes, vocabulary), in one pass behind the cached prompts."""
    tokens, parents, depths = (
        _right_padded(values)
        for values in ([t.tokens for t in trees], [t.parents for t in trees], [t.depths for t in trees])
    )
    sees = torch.from_numpy(_ancestry(parents, int(depths.max()))).to(model.device)
    past = prefix.mask[:, None, :].bool().expand(-1, sees.shape[1], -1)
    hidden = torch.cat([past, sees], dim=-1).logical_not()[:, None]
    mask = hidden.to(model.dtype) * torch.finfo(model.dtype).min
    position_ids = prefix.lengths[:, None] + torch.from_numpy(depths).to(model.device)
    return forward(model, torch.from_numpy(tokens).to(model.device), mask, position_ids, prefix.cache)


def _row_logits(model: Model, heads: Sequence[Ids], trees: Sequence[Tree], batch_tokens: int) -> Tensor:
    """The same from ordinary passes over every continuation of every row, each with its whole prompt."""
    nodes = max(len(tree.tokens) for tree in trees)
    logits = torch.zeros(len(trees), nodes, model.config.get_text_config().vocab_size, device=model.device)
    paths = [(row, path) for row, tree in enumerate(trees) for path in tree.paths]
    whole = [[*heads[row], *(trees[row].tokens[node] for node in path)] for row, path in paths]
    for batch in chunks([len(ids) for ids in whole], batch_tokens):
        ids, mask = left_padded([whole[i] for i in batch], model.device)
        longest = max(len(paths[i][1]) for i in batch)
        last_logits = forward(model, ids, mask, positions(mask), None, keep=longest)
        for i, values in zip(batch, last_logits, strict=True):
            row, path = paths[i]
            logits[row, path] = values[longest - len(path) :]
    return logits


def _scored(
    rows: list[int], logits: Tensor, trees: Sequence[Tree], continuations: Sequence[Sequence[Ids]], temperature: float
) -> ScoredBatch:
    paths = [tree.paths for tree in trees]
    row = torch.tensor([i for i, options in enumerate(paths) for path in options for _ in path], device=logits.device)
    node = torch.tensor([n for options in paths for path in options for n in path], device=logits.device)
    token = torch.tensor([t for options in continuations for ids in options for t in ids], device=logits.device)
    if temperature == 0.0:
        hit = logits.argmax(-1)[row, node] == token
        flat = torch.where(hit, 0.0, -torch.inf)
    else:
        scaled = logits if temperature == 1.0 else logits / temperature
        flat = scaled[row, node, token] - scaled.logsumexp(-1)[row, node]
    split = iter(np.split(flat.double().cpu().numpy(), np.cumsum([len(path) for options in paths for path in options])))
    return ScoredBatch(rows, [[next(split) for _ in options] for options in paths], logits, paths, temperature)


def _right_padded(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    padded = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _ancestry(parents: npt.NDArray[np.int64], deepest: int) -> npt.NDArray[np.bool_]:
    """(rows, nodes, nodes): whether a node sees another, that is, descends from it or is it."""
    rows, nodes = parents.shape
    sees = np.zeros((rows, nodes, nodes), dtype=np.bool_)
    row, node = np.ogrid[:rows, :nodes]
    ancestor = np.broadcast_to(node, (rows, nodes))
    for _ in range(deepest + 1):
        sees[row, node, ancestor] = True
        ancestor = np.take_along_axis(parents, ancestor, axis=1)
    return sees
