import numpy as np
import pytest
import torch

from worldline.adwm.dynamics import next_latents
from worldline.adwm.episodes import EpisodeData, read_episode, windows
from worldline.adwm.fitting import training
from worldline.adwm.fitting.epochs import HeldEpisodes
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.fitting.training import Schedule, effective_rank, latents, train, train_score
from worldline.adwm.imagination import ImaginationConfig
from worldline.adwm.model import PRESETS, Preset, WorldModel
from worldline.adwm.rivals.latent import Pairs
from worldline.types import Trajectory


def test_effective_rank_counts_the_dimensions_in_use() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4000, 8, generator=generator)
    assert effective_rank(z) == pytest.approx(8, abs=0.1)
    z[:, 2:] = 0
    assert effective_rank(z) == pytest.approx(2, abs=0.05)
    assert effective_rank(torch.ones(10, 8)) == 0.0


def test_the_score_network_learns_a_known_transition(log: list[Trajectory], monkeypatch: pytest.MonkeyPatch) -> None:
    """z' = 0.8 (first 4 of h) + 0.3 noise: samples have that mean and spread, and the encoders are left alone."""
    torch.manual_seed(0)
    model = WorldModel(PRESETS["small"].model_copy(update={"latent": 4, "score_width": 64}), facts_of(log))
    before = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("score.")}
    generator = torch.Generator().manual_seed(1)

    def drawn(n: int) -> Pairs:
        h, action = torch.randn(n, 64, generator=generator), torch.zeros(n, 32)
        h[:, 4:] = 0
        after = 0.8 * h[:, :4] + 0.3 * torch.randn(n, 4, generator=generator)
        return Pairs(h, action, after, after)

    monkeypatch.setattr(training, "_SCORE_UPDATES", 300)
    monkeypatch.setattr(training, "_SCORE_RATE", 3e-3)
    train_score(model, drawn(4000), drawn(200), seed=0)
    tested = drawn(400)
    noise = torch.randn(1, 400, 4, generator=generator)
    with torch.no_grad():
        z = next_latents(model, None, ImaginationConfig(steps=50), tested.h, tested.action, noise)
    mean = 0.8 * tested.h[:, :4]
    assert float((z - mean).pow(2).mean().sqrt()) == pytest.approx(0.3, abs=0.12)
    assert float((z * mean).mean() / mean.pow(2).mean()) == pytest.approx(1.0, abs=0.1)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("preset", "steps"), [("small", 63), ("small", 64), ("small", 65), ("small", 130), ("paper", 130)]
)
def test_an_episode_longer_than_the_window_is_read_in_pieces(log: list[Trajectory], preset: Preset, steps: int) -> None:
    torch.manual_seed(0)
    model = WorldModel(PRESETS[preset], facts_of(log), ("go",))
    whole = read_episode(model, log[0], 0)
    times = -(-steps // len(whole))
    long = EpisodeData(
        0,
        whole.task,
        whole.goal,
        [*(whole.observations[:-1] * times)[:steps], whole.observations[-1]],
        (whole.actions * times)[:steps],
        (whole.action_texts * times)[:steps],
        np.zeros(steps, dtype=np.float32),
        np.zeros(steps, dtype=np.float32),
        0.0,
    )
    pieces = windows([long], model)
    assert sum(len(piece) for piece in pieces) == steps
    assert latents(model, [long], 4).shape == (steps + len(pieces), model.architecture.latent)
    train(model, HeldEpisodes([long] * 4), [long], Schedule(epochs=1, batch=2), seed=0)


def test_early_stopping_keeps_the_best_epoch(log: list[Trajectory], monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out scores 1.0, 0.5, 0.7, ...: with a patience of one the third epoch is the last, the second is kept."""
    torch.manual_seed(0)
    model = WorldModel(PRESETS["small"], facts_of(log))
    data = [read_episode(model, one, n) for n, one in enumerate(log[:16])]
    scores = iter([1.0, 0.5, 0.7, 0.8, 0.9, 0.95])

    def evaluated(*given: object) -> dict[str, float]:
        return dict.fromkeys(("diffusion", "termination", "reward"), next(scores))

    monkeypatch.setattr("worldline.adwm.fitting.training.evaluate", evaluated)
    rows: list[dict[str, float]] = []
    weights: list[torch.Tensor] = []

    def watch(row: dict[str, float]) -> None:
        rows.append(row)
        weights.append(model.score.out.weight.detach().clone())

    train(
        model,
        HeldEpisodes(data[:12]),
        data[12:],
        Schedule(epochs=6, batch=8, rate=1e-3, patience=1),
        seed=0,
        watch=watch,
    )
    assert len(rows) == 3
    assert rows[-1]["best"] == 2
    assert torch.equal(model.score.out.weight, weights[1])
    assert not torch.equal(weights[1], weights[2])
