"""Logged episodes as tensors: read once, then batched, windowed and padded for training and for replay."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from worldline.adwm.model import Texts, WorldModel
from worldline.adwm.tokenizer import Ids, marks, padded_ids
from worldline.types import Trajectory


class Tokens(NamedTuple):
    """One text: ids and marks (L,), and its row in the action table."""

    ids: Ids
    marks: Ids
    row: int = 0


class Reader:
    """Reads one episode. `paper` has neither a goal encoder nor marks: there the goal opens the first observation."""

    def __init__(self, model: WorldModel, goal: str) -> None:
        self._model = model
        self._text = model.architecture.text
        self._goal = model.tokenizer.encode(goal)
        self._opening = goal
        self._named = frozenset(self._goal.tolist())
        """The tokens of the goal; below, those of the last action, of the actions before it, of the last answer."""
        self._last_action: frozenset[int] = frozenset()
        self._earlier: frozenset[int] = frozenset()
        self._seen: frozenset[int] = frozenset()

    def goal(self) -> Tokens:
        return Tokens(self._goal, np.zeros_like(self._goal))

    def observation(self, text: str) -> Tokens:
        if not self._text and self._opening:
            text = text if self._opening in text else f"{self._opening}\n{text}"
        self._opening = ""
        ids = self._model.tokenizer.encode(text)
        self._seen = frozenset(ids.tolist())
        return Tokens(ids, self._marked(ids, self._last_action))

    def action(self, text: str) -> Tokens:
        ids = self._model.tokenizer.encode(text)
        self._earlier |= self._last_action
        self._last_action = frozenset(ids.tolist())
        return Tokens(ids, self._marked(ids, self._seen), self._model.row(text))

    def _marked(self, ids: Ids, beside: frozenset[int]) -> Ids:
        return marks(ids, self._named, beside, self._earlier) if self._text else np.zeros_like(ids)

    def copy(self) -> "Reader":
        twin = Reader.__new__(Reader)
        twin.__dict__ = dict(self.__dict__)
        return twin


def texts(rows: Sequence[Tokens], device: torch.device) -> Texts:
    """Tokens of several texts as one batch."""
    return Texts(
        torch.from_numpy(padded_ids([row.ids for row in rows])).to(device),
        torch.from_numpy(padded_ids([row.marks for row in rows])).to(device),
        torch.tensor([row.row for row in rows], device=device),
    )


@dataclass(frozen=True)
class EpisodeData:
    """One episode of T steps, read: T + 1 observations, T actions, and what each step led to."""

    number: int
    task: str
    goal: Tokens
    observations: list[Tokens]
    actions: list[Tokens]
    action_texts: tuple[str, ...]
    rewards: npt.NDArray[np.float32]
    """Scaled to 0..1 by the log's range."""
    ended: npt.NDArray[np.float32]
    success: float
    """nan where the log does not say."""

    def __len__(self) -> int:
        return len(self.actions)

    def window(self, start: int, length: int) -> "EpisodeData":
        """Steps `start` to `start + length`; the end is in it only if the window reaches it."""
        stop = min(start + length, len(self))
        return EpisodeData(
            self.number,
            self.task,
            self.goal,
            self.observations[start : stop + 1],
            self.actions[start:stop],
            self.action_texts[start:stop],
            self.rewards[start:stop],
            self.ended[start:stop],
            self.success,
        )


def windows(data: Sequence[EpisodeData], model: WorldModel) -> list[EpisodeData]:
    """Every step of every episode once and in order, in pieces that the history encoder can hold."""
    size = model.architecture.stretch
    return [one.window(start, size) for one in data for start in range(0, len(one), size)]


def read_episode(model: WorldModel, episode: Trajectory, number: int) -> EpisodeData:
    """`episode` as the networks read it. `number` is its place in the log."""
    reader = Reader(model, episode.goal)
    seen, done = [reader.observation(episode.steps[0].observation)], []
    for step, answer in zip(episode.steps, episode.next_observations, strict=True):
        done.append(reader.action(step.action))
        seen.append(reader.observation(answer))
    facts = model.facts
    rewards = np.array([step.reward for step in episode.steps])
    ended = np.zeros(len(rewards))
    ended[-1] = episode.terminated
    return EpisodeData(
        number,
        episode.task_id,
        reader.goal(),
        seen,
        done,
        tuple(step.action for step in episode.steps),
        facts.reward_share(rewards).astype(np.float32),
        ended.astype(np.float32),
        float("nan") if episode.success is None else float(episode.success),
    )


@dataclass(frozen=True)
class Encoded:
    """A batch of B episodes of at most T steps, encoded: what the losses and the replays read."""

    z: Tensor
    """(B, T + 1, latent)"""
    action: Tensor
    """(B, T, action)"""
    h: Tensor
    """(B, T + 1, width)"""
    real: Tensor
    """(B, T), True where there is a step"""
    rewards: Tensor
    ended: Tensor
    rows: Tensor
    """(B, T), in the action table"""
    same: Tensor
    """(B, T), equal numbers for equal action texts; below, for equal texts of next observations"""
    same_after: Tensor


def encode(model: WorldModel, batch: Sequence[EpisodeData]) -> Encoded:
    """Run the encoders over a batch."""
    device, steps = model.device, max(len(data) for data in batch)
    z = _spread(
        encoded(model.encode_observation, [t for data in batch for t in data.observations], device),
        [len(data) + 1 for data in batch],
    )
    action = _spread(
        encoded(model.encode_action, [t for data in batch for t in data.actions], device),
        [len(data) for data in batch],
    )
    goal = model.encode_goal(texts([data.goal for data in batch], device))
    before = torch.cat([model.null_action(len(batch)).unsqueeze(1), action], 1)
    h = model.history_encoder(
        model.step_tokens(z, before, None if goal is None else goal.unsqueeze(1).expand(-1, steps + 1, -1))
    )
    names = _numbered(text for data in batch for text in data.action_texts)
    answers = _numbered(tokens.ids.tobytes() for data in batch for tokens in data.observations)

    def table(rows: Sequence[npt.NDArray[np.generic] | Sequence[float]]) -> Tensor:
        out = np.zeros((len(rows), steps), dtype=np.float32)
        for row, values in zip(out, rows, strict=True):
            row[: len(values)] = values
        return torch.from_numpy(out).to(device)

    return Encoded(
        z=z,
        action=action,
        h=h,
        real=table([np.ones(len(data)) for data in batch]).bool(),
        rewards=table([data.rewards for data in batch]),
        ended=table([data.ended for data in batch]),
        rows=table([[t.row for t in data.actions] for data in batch]).long(),
        same=table([[names[t] for t in data.action_texts] for data in batch]).long(),
        same_after=table([[answers[t.ids.tobytes()] for t in data.observations[1:]] for data in batch]).long(),
    )


K = TypeVar("K", str, bytes)


def _numbered(keys: Iterable[K]) -> dict[K, int]:
    """A number for each distinct key, in order."""
    return {key: number for number, key in enumerate(dict.fromkeys(keys))}


def encoded(encoder: Callable[[Texts], Tensor], rows: Sequence[Tokens], device: torch.device) -> Tensor:
    """Texts through an encoder, short ones apart from long ones so that little is spent on padding."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    cuts = [
        0,
        *(at for at in range(1, len(order)) if _octave(rows[order[at]]) != _octave(rows[order[at - 1]])),
        len(order),
    ]
    parts = [
        encoder(texts([rows[i] for i in order[start:stop]], device))
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(parts)[back.to(device)]


def _octave(tokens: Tokens) -> int:
    return max(4, len(tokens.ids)).bit_length()


def _spread(flat: Tensor, lengths: Sequence[int]) -> Tensor:
    """Rows of consecutive episodes as (B, longest, d), zeros after each one's end."""
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(flat, list(lengths))), batch_first=True)
