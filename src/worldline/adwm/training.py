"""Training one world model: the loop of the paper's algorithm 1, with early stopping on held-out tasks.

Every epoch draws its order and its noise from (seed, epoch) alone, so a run that was interrupted goes on as if it
had not been. Successful episodes are drawn more often where they are rare; what that does to the heads' priors is
recorded, and undone when they are read.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.nn import functional as F

from worldline import training_state
from worldline.adwm.episodes import EpisodeData, encode, windows
from worldline.adwm.losses import losses, total
from worldline.adwm.model import WorldModel
from worldline.adwm.outcome_head import Outcome, Priors, linear_logits
from worldline.narrator.linear import padded_ids
from worldline.types import InputError, WorldlineError, derive_seed

Watch = Callable[[dict[str, Any]], None]
_LINEAR = ("linear.", "precedent.")
_RATE, _DECAY, _BATCH, _EPOCHS = 0.02, 0.01, 128, 32
"""Of the linear part of the heads; precedents are few and learn faster."""
_PRECEDENTS_RATE = 5 * _RATE
_LEAST_RANK = 2.0
_HELD_OUT_NOISE = 0, -1
"""Seed and epoch of the noise that held-out tasks are evaluated with, at every epoch the same."""


class Schedule(BaseModel):
    """How a world model is trained. The defaults are the paper's (appendix E.8) but for the ones marked ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = 50
    batch: int = 64
    rate: float = 3e-4
    decay: float = 1e-4
    clip: float = 1.0
    hide: float = 0.1
    patience: int = 8
    """Epochs without progress on held-out tasks before stopping. Ours."""
    success_share: float = 0.3
    """Successful episodes are upsampled to this share of the draws, if they are fewer. The paper gives no number."""


def train(
    model: WorldModel,
    training: Sequence[EpisodeData],
    held_out: Sequence[EpisodeData],
    schedule: Schedule,
    *,
    seed: int,
    checkpoint: Path | None = None,
    watch: Watch = lambda row: None,
) -> WorldModel:
    """Fit `model`; its weights end as they were at the best epoch on `held_out`."""
    chances = _chances(training, schedule.success_share)
    state = _Progress(checkpoint)
    if model.architecture.text and not state.kept:
        fit_linear(model, training, held_out or training, chances, seed)
    deep = [p for name, p in model.named_parameters() if not name.startswith(_LINEAR)]
    optimizer = torch.optim.AdamW(deep, lr=schedule.rate, weight_decay=schedule.decay)
    first = state.resume(model, optimizer)
    for epoch in range(first, schedule.epochs):
        if epoch - state.best_epoch > schedule.patience:
            break
        _set_rate(optimizer, schedule, epoch)
        started, noise = time.perf_counter(), _seeded(seed, epoch)
        drawn = _draw(training, chances, model.architecture.stretch, np.random.default_rng(derive_seed(seed, epoch)))
        model.train()
        seen = [_step(model, batch, optimizer, schedule, noise) for batch in _batches(drawn, schedule.batch)]
        tested = evaluate(model, held_out or training, schedule.batch)
        state.note(epoch, tested, model)
        row: dict[str, Any] = {"epoch": epoch + 1, "of": schedule.epochs, "seconds": time.perf_counter() - started}
        row |= {name: float(np.mean([terms[name] for terms in seen])) for name in seen[0]}
        watch(row | {f"held_out_{name}": value for name, value in tested.items()} | {"best": state.best_epoch + 1})
        state.keep(epoch, model, optimizer)  # after its row: a row that a crash doubles is cut off, a lost one is lost
    _seeded(*_HELD_OUT_NOISE)  # what is drawn from here on does not depend on how many epochs this process ran
    model.load_state_dict(state.best_weights)
    rank = effective_rank(latents(model, held_out or training, schedule.batch))
    if rank < _LEAST_RANK:
        raise WorldlineError(
            f"the latents collapsed (effective rank {rank:.2f} of {model.architecture.latent}): "
            "observations cannot be distinguished by them; fit with another seed or a lower rate"
        )
    return model.eval()


def _step(
    model: WorldModel,
    batch: Sequence[EpisodeData],
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    noise: torch.Generator,
) -> dict[str, float]:
    with _precision(model):
        terms = losses(model, encode(model, batch), noise, schedule.hide)
        loss = total(terms)
    if not math.isfinite(loss.item()):
        raise WorldlineError("training diverged (the loss is not a number): lower the rate")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
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


def priors(training: Sequence[EpisodeData], share: float) -> Priors:
    """What upsampling to `share` did to the heads' base rates."""
    weights = _chances(training, share) * len(training)
    ends = np.array([data.ended.sum() for data in training])
    steps = np.array([len(data) for data in training])
    last = np.array([float(data.rewards[-1]) for data in training])
    won = np.array([0.0 if math.isnan(data.success) else data.success for data in training])

    def rates(of: np.ndarray[Any, Any], among: np.ndarray[Any, Any]) -> tuple[float, float]:
        drawn, natural = (weights * among).sum(), among.sum()
        return float((weights * of).sum() / max(drawn, 1e-9)), float(of.sum() / max(natural, 1e-9))

    return Priors(hazard=rates(ends, steps), reward=rates(last * ends, ends), success=rates(won * ends, ends))


def _chances(data: Sequence[EpisodeData], share: float) -> np.ndarray[Any, Any]:
    """The probability of drawing each episode."""
    good = np.array([data.success == 1 or float(data.rewards.sum()) > 0 for data in data])
    wins, rest = int(good.sum()), int((~good).sum())
    lift = share * rest / ((1 - share) * wins) if wins and rest else 1.0
    weights = np.where(good, max(1.0, lift), 1.0)
    chances: np.ndarray[Any, Any] = weights / weights.sum()
    return chances


def _draw(
    data: Sequence[EpisodeData], chances: np.ndarray[Any, Any], window: int, rng: np.random.Generator
) -> list[EpisodeData]:
    """One epoch: as many episodes as there are, each cut to a random window if it is longer."""
    even = np.allclose(chances, chances[0])
    order = rng.permutation(len(data)) if even else rng.choice(len(data), len(data), p=chances)
    return [data[i].window(int(rng.integers(0, max(1, len(data[i]) - window + 1))), window) for i in order]


def _batches(data: Sequence[EpisodeData], size: int) -> Iterator[Sequence[EpisodeData]]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


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
            for name, gradient in state["gradients"].items():
                model.get_parameter(name).grad = gradient
            self.best_epoch, self._best, self._first = state["best_epoch"], state["best"], state["first"]
            self.best_weights = state["best_weights"]
            return int(state["epoch"]) + 1
        except (AttributeError, KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"{self.path}: is of another training: {reason}: --overwrite starts anew") from None

    def note(self, epoch: int, tested: dict[str, float], model: WorldModel) -> None:
        """Progress is the mean of the held-out terms, each relative to its first value."""
        self._first = self._first or tested
        watched = [name for name in ("diffusion", "termination", "reward") if self._first.get(name, 0) > 1e-9]
        score = sum(tested[name] / self._first[name] for name in watched) / max(1, len(watched))
        if score < self._best:
            self._best, self.best_epoch, self.best_weights = score, epoch, _copied(model)

    def keep(self, epoch: int, model: WorldModel, optimizer: torch.optim.Optimizer) -> None:
        """Write the checkpoint of this epoch in the place of the last one."""
        if self.path is not None:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            # The linear part is fitted before and not by this optimizer: its gradients add up from step to step, and
            # count in the norm that is clipped.
            linear = {name: p.grad for name, p in model.named_parameters() if name.startswith(_LINEAR)}
            state["gradients"] = {name: gradient for name, gradient in linear.items() if gradient is not None}
            state |= {"best_epoch": self.best_epoch, "best": self._best, "first": self._first}
            training_state.save(self.path, state | {"best_weights": self.best_weights})


def _copied(model: WorldModel) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def fit_linear(
    model: WorldModel,
    training: Sequence[EpisodeData],
    held_out: Sequence[EpisodeData],
    chances: npt.NDArray[np.float64],
    seed: int,
) -> None:
    """Fit the linear part of the heads alone, each to its best epoch on held-out tasks."""
    x, y, w = _evidence(training, torch.from_numpy(chances * len(training)).float())
    xt, yt, wt = _evidence(held_out, torch.ones(len(held_out)))
    # Few of the buckets are ever used: those alone are trained, and then put where they belong.
    used = torch.unique(torch.cat([torch.zeros(1, dtype=torch.long), x.flatten(), xt.flatten()]))
    x, xt = torch.searchsorted(used, x), torch.searchsorted(used, xt)
    linear, precedent = (
        torch.nn.Parameter(table.detach().cpu()[used]) for table in (model.linear.weight, model.precedent.weight)
    )
    bias = torch.nn.Parameter(torch.zeros(len(Outcome._fields)))
    groups = [{"params": [linear, bias], "lr": _RATE}, {"params": [precedent], "lr": _PRECEDENTS_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / _EPOCHS)
    best, kept = torch.full_like(bias, torch.inf), [p.detach().clone() for p in (linear, precedent, bias)]
    for epoch in range(_EPOCHS):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(derive_seed(seed, epoch, "wide")))
        for rows in torch.split(order, _BATCH):
            optimizer.zero_grad()
            terms = outcome_terms(linear_logits(x[rows], linear, precedent) + bias, y[rows])
            (w[rows, None] * terms).sum(-1).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            scores = (wt[:, None] * outcome_terms(linear_logits(xt, linear, precedent) + bias, yt)).mean(0)
            better = scores < best
            best = torch.where(better, scores, best)
            # precedents are silent on the first head
            for at, (now, heads) in enumerate(((linear, better), (precedent, better[1:]), (bias, better))):
                kept[at] = torch.where(heads, now, kept[at])
    _put(model, used, *kept)


@torch.no_grad()
def _put(model: WorldModel, used: Tensor, linear: Tensor, precedent: Tensor, bias: Tensor) -> None:
    for table, weight in ((model.linear.weight, linear), (model.precedent.weight, precedent)):
        table[used.to(model.device)] = weight.to(model.device)
    for head, part in ((model.termination_head, bias[:1]), (model.reward_head, bias[1:])):
        list(head.parameters())[-1].copy_(part)


def _evidence(data: Sequence[EpisodeData], weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every step's features (n, F), targets (n, 3: end, reward, success) and weight (n,)."""
    x = torch.from_numpy(padded_ids([ids for one in data for ids in one.outcome_features]))
    rows = [(end, reward, one.success) for one in data for end, reward in zip(one.ended, one.rewards, strict=True)]
    w = torch.repeat_interleave(weights, torch.tensor([len(one) for one in data]))
    return x, torch.tensor(rows, dtype=torch.float32), w


def outcome_terms(logits: Tensor, y: Tensor) -> Tensor:
    """(n, 4): the logarithmic score of each head at each step, 0 where it does not apply.

    Hazard applies at every step, reward at the end or on the way, success at the end, where the log has it.
    """
    ended, reward, success = y.unbind(-1)
    targets = torch.stack([ended, reward, reward, success.nan_to_num(0.0)], -1)
    weights = torch.stack([torch.ones_like(ended), ended, 1 - ended, ended * ~success.isnan()], -1)
    return weights * F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
