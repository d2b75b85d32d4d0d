"""The decoder: which candidate a latent stands for, and that the latent is what decides."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from worldline.adwm import decoder as module
from worldline.adwm import world_model_env
from worldline.adwm.decoder import (
    FEATURES,
    LatentDecoder,
    candidate_latents,
    fit_decoder,
    latent_features,
    predicted_latents,
)
from worldline.adwm.ensemble import Member
from worldline.adwm.episodes import Reader, encoded, read_episode
from worldline.adwm.fit import Fitted
from worldline.adwm.imagination import ImaginationConfig
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.kernel.candidates import KINDS
from worldline.kernel.model import Considered
from worldline.kernel.step_table import replay


def considered(fitted: Fitted, number: int, at: int) -> tuple[Reader, Considered]:
    """Step `at` of a logged episode: how the episode was read so far, and what may be answered."""
    kernel, model = fitted.ensemble.kernel, fitted.ensemble.members[0].model
    episode = fitted.ensemble.episodes[number]
    reader = Reader(model, episode.goal)
    reader.observation(episode.steps[0].observation)
    for state, _, row in replay(kernel.log.language, episode, number):
        reader.action(row.action)
        if row.step == at:
            return reader, kernel.consider(state, row.action, own=number)
        reader.observation(row.answer)
    raise AssertionError


def test_candidates_are_read_where_the_episode_stands(fitted: Fitted) -> None:
    """Against reading each text alone, and equal texts have one latent."""
    model = fitted.ensemble.members[0].model
    steps = [considered(fitted, number, 1) for number in (0, 3)]
    latents = candidate_latents(model, [reader for reader, _ in steps], [one for _, one in steps])
    for (reader, one), many in zip(steps, latents, strict=True):
        assert len(many) == len(one.candidates)
        for text, z in zip(one.candidates.texts, many, strict=True):
            alone = encoded(model.encode_observation, [reader.copy().observation(text)], model.device)[0]
            torch.testing.assert_close(z, alone, atol=1e-4, rtol=1e-4)


def test_features_by_hand(fitted: Fitted) -> None:
    _, one = considered(fitted, 0, 1)
    z = torch.zeros(32)
    latents = torch.arange(len(one.candidates)).float().unsqueeze(1).expand(-1, 32)
    described = latent_features(latents, z, one)
    assert described[:, 0].tolist() == [float(at) ** 2 for at in range(len(one.candidates))]
    assert described[3, 1] == pytest.approx(np.log(9 + 1e-4))
    assert described[:, 2].tolist() == [1.0] + [0.0] * (len(one.candidates) - 1)
    assert described.shape[1] == len(FEATURES) == 4 + len(KINDS)
    assert (described[:, 4:].sum(1) == 1).all()
    assert described[:, 4:].argmax(1).tolist() == one.candidates.kinds.tolist()


@pytest.fixture(scope="module")
def clairvoyant(fitted: Fitted) -> tuple[Member, dict[str, float]]:
    """A member whose sampler knows what is answered: its decoder, fitted on that, and the nats of the fit."""
    member, kernel = fitted.ensemble.members[0], fitted.ensemble.kernel
    data = [
        read_episode(member.model, episode, number)
        for number, episode in enumerate(fitted.ensemble.episodes)
        if episode.task_id in member.held_out
    ]
    true = dict(zip(range(len(fitted.ensemble.episodes)), _by_episode(fitted), strict=True))

    def clear_sighted(
        model: object, rivals: object, config: ImaginationConfig, *rest: object
    ) -> dict[int, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        return {
            n: torch.randn(z.shape, generator=generator) if config.dynamics == "noise" else z for n, z in true.items()
        }

    decoder = LatentDecoder(len(kernel.log), 32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "predicted_latents", clear_sighted)
        nats = fit_decoder(decoder, member.model, None, kernel, data, seed=0)
    return replace(member, decoder=decoder), nats


def _by_episode(fitted: Fitted) -> list[torch.Tensor]:
    lengths = [len(episode) for episode in fitted.ensemble.episodes]
    return list(torch.split(fitted.ensemble.members[0].decoder.latents, lengths))


def test_a_decoder_learns_to_trust_latents_that_tell_the_answer(clairvoyant: tuple[Member, dict[str, float]]) -> None:
    nats = clairvoyant[1]
    assert nats["diffusion"] < nats["noise"] - 0.2
    assert nats["wm_and_latent"] < nats["wm"] - 0.01, "what it knows is seen to add"


def test_an_imagined_world_answers_what_was_sampled(
    fitted: Fitted, clairvoyant: tuple[Member, dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sampler says what really followed: so does the world. With noise in its place it does not."""
    ensemble = replace(fitted.ensemble, members=(clairvoyant[0],))
    matches = {}
    for name in ("diffusion", "noise"):
        world = ImaginedWorld(ensemble, ImaginationConfig(name))
        matched = []
        for number in range(0, 72, 9):
            environment, episode = world.make(), fitted.ensemble.episodes[number]
            environment.reset(seed=number, task=episode.task_id)
            environment.own = number
            environment.start_as(episode)
            z = _by_episode(fitted)[number]
            for at, step in enumerate(episode.steps):
                if name == "diffusion":
                    monkeypatch.setattr(world_model_env, "next_latents", lambda *given, z=z[at : at + 1]: z)
                environment.over = False
                matched.append(environment.step(step.action)[0] == episode.next_observations[at])
            monkeypatch.undo()
        matches[name] = np.mean(matched)
    assert matches["diffusion"] > 0.85
    assert matches["diffusion"] > matches["noise"] + 0.1


def test_what_was_measured_is_reported(fitted: Fitted) -> None:
    dynamics = ("diffusion", "noise", "wm-ar", "wm-joint", "wm-knn", "wm", "wm_and_latent")
    assert {f"nats_{name}" for name in dynamics} <= fitted.figures.keys()


def test_noise_is_decoded_by_the_diffusion_s_gate() -> None:
    decoder = LatentDecoder(3, 4, ("diffusion", "wm-ar"))
    assert decoder.gate("noise") is decoder.gate("diffusion")
    assert decoder.gate("wm-ar") is not decoder.gate("diffusion")


@pytest.mark.parametrize("name", ["diffusion", "wm-ar", "wm-joint", "wm-knn", "noise"])
def test_latents_are_predicted_for_every_step(fitted: Fitted, name: str) -> None:
    member, kernel = fitted.ensemble.members[0], fitted.ensemble.kernel
    data = [read_episode(member.model, fitted.ensemble.episodes[number], number) for number in (4, 1)]
    config = ImaginationConfig(name)  # type: ignore[arg-type]  # one of the dynamics
    drawn = predicted_latents(member.model, member.rivals, config, kernel, data, seed=0)
    assert {number: z.shape for number, z in drawn.items()} == {one.number: (len(one), 32) for one in data}
    if name == "wm-knn":  # what followed a logged step, but for those of its own episode
        own = kernel.log.episode_of
        for number, many in drawn.items():
            for z in many:
                (rows,) = np.nonzero((member.rivals.knn.answers == z).all(1).numpy())  # type: ignore[union-attr]  # this member has all rivals
                assert len(rows)
                assert set(own[rows]) != {number}
