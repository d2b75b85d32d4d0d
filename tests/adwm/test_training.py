from pathlib import Path

import numpy as np
import pytest
import torch

from worldline.adwm.episodes import EpisodeData, facts_of, read_episode, windows
from worldline.adwm.model import PRESETS, WorldModel
from worldline.adwm.training import Schedule, effective_rank, latents, priors, train
from worldline.types import Trajectory, WorldlineError


def episode(steps: int, won: bool) -> EpisodeData:
    ended = np.zeros(steps, dtype=np.float32)
    ended[-1] = won
    nothing = [np.zeros(1, dtype=np.int64)] * steps
    return EpisodeData(0, "t", None, [], [None] * steps, (), nothing, ended, ended, float(won))  # type: ignore[list-item, arg-type]


def test_effective_rank_counts_the_dimensions_in_use() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4000, 8, generator=generator)
    assert effective_rank(z) == pytest.approx(8, abs=0.1)
    z[:, 2:] = 0
    assert effective_rank(z) == pytest.approx(2, abs=0.05)
    assert effective_rank(torch.ones(10, 8)) == 0.0


def test_priors_say_what_upsampling_did() -> None:
    """One success in ten, drawn up to 30 %: its weight is 0.3 * 9 / 0.7."""
    data = [episode(5, won=True), *(episode(10, won=False) for _ in range(9))]
    lift = 0.3 * 9 / 0.7
    weight = lift / (lift + 9) * 10
    other = (10 - weight) / 9
    hazard = priors(data, 0.3).hazard
    assert hazard[1] == pytest.approx(1 / 95)
    assert hazard[0] == pytest.approx(weight / (5 * weight + 90 * other))
    assert priors(data, 0.05).hazard[0] == pytest.approx(1 / 95)


def test_collapsed_latents_are_an_error(log: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = WorldModel(PRESETS["small"], facts_of(log))
    data = [read_episode(model, one, n, None) for n, one in enumerate(log[:10])]
    constant = model.observation_encoder.out
    for weight in constant.parameters():
        torch.nn.init.zeros_(weight)
        weight.requires_grad_(False)
    torch.nn.init.ones_(list(constant.parameters())[-1][:1])
    with pytest.raises(WorldlineError, match="collapsed"):
        train(model, data, data, Schedule(epochs=1, batch=8), seed=0)


@pytest.mark.parametrize("preset", ["small", "paper"])
@pytest.mark.parametrize("steps", [63, 64, 65, 130])
def test_an_episode_longer_than_the_window_is_read_in_pieces(log: list[Trajectory], preset: str, steps: int) -> None:
    torch.manual_seed(0)
    model = WorldModel(PRESETS[preset], facts_of(log), ("go",))  # type: ignore[index]
    whole = read_episode(model, log[0], 0, None)
    times = -(-steps // len(whole))
    long = EpisodeData(
        0,
        whole.task,
        whole.goal,
        [*(whole.observations[:-1] * times)[:steps], whole.observations[-1]],
        (whole.actions * times)[:steps],
        (whole.action_texts * times)[:steps],
        (whole.outcome_features * times)[:steps],
        np.zeros(steps, dtype=np.float32),
        np.zeros(steps, dtype=np.float32),
        0.0,
    )
    pieces = windows([long], model)
    assert sum(len(piece) for piece in pieces) == steps
    assert latents(model, [long], 4).shape == (steps + len(pieces), model.architecture.latent)
    train(model, [long] * 4, [long], Schedule(epochs=1, batch=2), seed=0)


def test_early_stopping_keeps_the_best_epoch(log: list[Trajectory], monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out scores 1.0, 0.5, 0.7, ...: with a patience of one the third epoch is the last, the second is kept."""
    torch.manual_seed(0)
    model = WorldModel(PRESETS["small"], facts_of(log))
    data = [read_episode(model, one, n, None) for n, one in enumerate(log[:16])]
    scores = iter([1.0, 0.5, 0.7, 0.8, 0.9, 0.95])

    def evaluated(*given: object) -> dict[str, float]:
        return dict.fromkeys(("diffusion", "termination", "reward"), next(scores))

    monkeypatch.setattr("worldline.adwm.training.evaluate", evaluated)
    rows: list[dict[str, float]] = []
    weights: list[torch.Tensor] = []

    def watch(row: dict[str, float]) -> None:
        rows.append(row)
        weights.append(model.score.out.weight.detach().clone())

    train(model, data[:12], data[12:], Schedule(epochs=6, batch=8, rate=1e-3, patience=1), seed=0, watch=watch)
    assert len(rows) == 3
    assert rows[-1]["best"] == 2
    assert torch.equal(model.score.out.weight, weights[1])
    assert not torch.equal(weights[1], weights[2])
