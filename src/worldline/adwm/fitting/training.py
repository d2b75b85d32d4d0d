"""Training one world model: the loop of the paper's algorithm 1, with early stopping on held-out tasks.

Every epoch draws its order and its noise from (seed, epoch) alone, so a run that was interrupted goes on as if it
had not been.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from worldline import training_state
from worldline.adwm.episodes import EpisodeData, encode, windows
from worldline.adwm.fitting.epochs import TrainingEpisodes
from worldline.adwm.fitting.losses import losses, score_loss, total
from worldline.adwm.model import WorldModel
from worldline.adwm.rivals.latent import Pairs
from worldline.types import InputError, WorldlineError, derive_seed

Watch = Callable[[dict[str, Any]], None]
_DECAY, _CLIP = 1e-4, 1.0
"""Of weights, and of the norm of a gradient, the paper's."""
_SCORE_UPDATES, _SCORE_BATCH, _SCORE_RATE, _SCORE_EVERY = 1500, 128, 1e-3, 100
_HELD_OUT_NOISE = 0, -1
"""Seed and epoch of the noise that held-out tasks are evaluated with, at every epoch the same."""


class Schedule(BaseModel):
    """How a world model is trained. The defaults are the paper's (appendix E.8) but for the ones marked ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = 50
    batch: int = 64
    rate: float = 3e-4
    patience: int = 8
    """Epochs without progress on held-out tasks before stopping. Ours."""
    success_share: float = 0.3
    """Successful episodes are upsampled to this share of the draws, if they are fewer. The paper gives no number."""


def train(
    model: WorldModel,
    training: TrainingEpisodes,
    held_out: Sequence[EpisodeData],
    schedule: Schedule,
    *,
    seed: int,
    checkpoint: Path | None = None,
    watch: Watch = lambda row: None,
) -> WorldModel:
    """Fit `model`; its weights end as they were at the best epoch on `held_out`."""
    state = _Progress(checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=schedule.rate, weight_decay=_DECAY)
    first = state.resume(model, optimizer)
    for epoch in range(first, schedule.epochs):
        if epoch - state.best_epoch > schedule.patience:
            break
        _set_rate(optimizer, schedule, epoch)
        started, noise = time.perf_counter(), _seeded(seed, epoch)
        rng = np.random.default_rng(derive_seed(seed, epoch))
        drawn = training.epoch(schedule.success_share, model.architecture.stretch, rng)
        model.train()
        seen = [_step(model, batch, optimizer, schedule, noise) for batch in _batches(drawn, schedule.batch)]
        tested = evaluate(model, held_out or training.sample(), schedule.batch)
        state.note(epoch, tested, model)
        row: dict[str, Any] = {"epoch": epoch + 1, "of": schedule.epochs, "seconds": time.perf_counter() - started}
        row |= {name: float(np.mean([terms[name] for terms in seen])) for name in seen[0]}
        watch(row | {f"held_out_{name}": value for name, value in tested.items()} | {"best": state.best_epoch + 1})
        state.keep(epoch, model, optimizer)  # after its row: a row that a crash doubles is cut off, a lost one is lost
    _seeded(*_HELD_OUT_NOISE)  # what is drawn from here on does not depend on how many epochs this process ran
    model.load_state_dict(state.best_weights)
    return model.eval()


def train_score(
    model: WorldModel,
    training: Pairs,
    held_out: Pairs,
    *,
    seed: int,
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Train the score network on latents that no longer change; its weights end as they were best on `held_out`.

    It is small and the encoders are not: thousands of its updates cost what a few epochs of the whole model cost.
    """
    optimizer = torch.optim.AdamW(model.score.parameters(), lr=_SCORE_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _SCORE_UPDATES, 0.01 * _SCORE_RATE)
    noise = _seeded(seed, _SCORE_UPDATES)
    best, kept = math.inf, model.score.state_dict()
    model.eval()
    for update in range(_SCORE_UPDATES):
        if update % _SCORE_EVERY == 0:
            watch(update, _SCORE_UPDATES)
        rows = torch.randint(len(training.h), (_SCORE_BATCH,), generator=noise).to(model.device)
        optimizer.zero_grad()
        score_loss(model, training.after[rows], training.h[rows], training.action[rows], noise).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()
        schedule.step()
        if (update + 1) % _SCORE_EVERY == 0:
            with torch.no_grad():
                tested = score_loss(
                    model, held_out.after, held_out.h, held_out.action, _seeded(*_HELD_OUT_NOISE)
                ).item()
            if tested < best:
                best, kept = tested, {name: value.clone() for name, value in model.score.state_dict().items()}
    model.score.load_state_dict(kept)


def _step(
    model: WorldModel,
    batch: Sequence[EpisodeData],
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    noise: torch.Generator,
) -> dict[str, float]:
    with _precision(model):
        terms = losses(model, encode(model, batch), noise)
        loss = total(terms)
    if not math.isfinite(loss.item()):
        raise WorldlineError("training diverged (the loss is not a number): lower the rate")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
    optimizer.step()
    return {name: value.item() for name, value in terms.items()} | {"loss": loss.item()}


@torch.no_grad()
def evaluate(model: WorldModel, data: Sequence[EpisodeData], size: int) -> dict[str, float]:
    """The loss terms on `data`, with the same noise at every epoch."""
    model.eval()
    noise = _seeded(*_HELD_OUT_NOISE)
    sums: dict[str, float] = {}
    steps = 0
    for batch in _batches(windows(data, model), size):
        with _precision(model):
            terms = losses(model, encode(model, batch), noise, hide=0.0)
        count = sum(len(one) for one in batch)
        steps += count
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value.item() * count
    return {name: value / steps for name, value in sums.items()}


@torch.no_grad()
def latents(model: WorldModel, data: Sequence[EpisodeData], size: int) -> Tensor:
    """z of every observation, one row each."""
    model.eval()
    parts = []
    for batch in _batches(windows(data, model), size):
        out = encode(model, batch)
        there = torch.cat([out.real[:, :1], out.real], 1)
        parts.append(out.z[there].float().cpu())
    return torch.cat(parts)


def effective_rank(z: Tensor) -> float:
    """exp of the entropy of the covariance's spectrum: how many dimensions the latents really use."""
    centred = z.double() - z.double().mean(0)
    spectrum = torch.linalg.eigvalsh(centred.T @ centred / len(z)).clamp(min=0)
    if spectrum.sum() <= 1e-12:
        return 0.0
    share = spectrum / spectrum.sum()
    return float(torch.exp(-(share * share.clamp(min=1e-12).log()).sum()))


def _batches(data: Iterable[EpisodeData], size: int) -> Iterator[list[EpisodeData]]:
    remaining = iter(data)
    while batch := list(islice(remaining, size)):
        yield batch


def _set_rate(optimizer: torch.optim.Optimizer, schedule: Schedule, epoch: int) -> None:
    """Cosine from the peak to 1 % of it."""
    at = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * epoch / schedule.epochs))
    for group in optimizer.param_groups:
        group["lr"] = schedule.rate * at


def _seeded(seed: int, epoch: int) -> torch.Generator:
    torch.manual_seed(derive_seed(seed, epoch, "dropout"))
    return torch.Generator().manual_seed(derive_seed(seed, epoch, "noise"))


def _precision(model: WorldModel) -> contextlib.AbstractContextManager[Any]:
    if model.device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


class _Progress:
    """The best epoch so far, and the checkpoint a resumed run starts from."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kept = path is not None and path.is_file()
        self.best_epoch = 0
        self.best_weights: dict[str, Tensor] = {}
        self._first: dict[str, float] = {}
        self._best = math.inf

    def resume(self, model: WorldModel, optimizer: torch.optim.Optimizer) -> int:
        """Put both back to where the checkpoint has them; the number of epochs that are done."""
        if self.path is None or not self.kept:
            self.best_weights = _copied(model)
            return 0
        state = training_state.load(self.path, model.device)
        try:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            self.best_epoch, self._best, self._first = state["best_epoch"], state["best"], state["first"]
            self.best_weights = state["best_weights"]
            return int(state["epoch"]) + 1
        except (AttributeError, KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"{self.path}: is of another training: {reason}: --overwrite starts anew") from None

    def note(self, epoch: int, tested: dict[str, float], model: WorldModel) -> None:
        """Progress is the mean of the held-out terms, each relative to its first value."""
        self._first = self._first or tested
        watched = [
            name for name in ("diffusion", "contrast", "termination", "reward") if self._first.get(name, 0) > 1e-9
        ]
        score = sum(tested[name] / self._first[name] for name in watched) / max(1, len(watched))
        if score < self._best:
            self._best, self.best_epoch, self.best_weights = score, epoch, _copied(model)

    def keep(self, epoch: int, model: WorldModel, optimizer: torch.optim.Optimizer) -> None:
        """Write the checkpoint of this epoch in the place of the last one."""
        if self.path is not None:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            state |= {"best_epoch": self.best_epoch, "best": self._best, "first": self._first}
            training_state.save(self.path, state | {"best_weights": self.best_weights})


def _copied(model: WorldModel) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
