"""The distilled adapter: logged episodes as they would be imagined, its divergence, and what it is good for."""

import pytest
import torch

from worldline.adwm.fit import Fitted
from worldline.adwm.soft_tokens.adapter import Adapter, AdapterConfig, fit_adapter
from worldline.adwm.soft_tokens.distillation import DistillationConfig, _divergence, _pairs, distil, imagined_turns
from worldline.adwm.soft_tokens.tokens import soft_policy
from worldline.adwm.world_model_env import ImaginedObservation
from worldline.policies.language_model.hf import HFPolicy, ScoringHFPolicy
from worldline.types import Trajectory, turns


def test_a_logged_episode_as_it_would_be_imagined(log: list[Trajectory]) -> None:
    """The first observation stays text, the later ones are sights; everything else is as it was."""
    episode = next(episode for episode in log if len(episode) >= 4)
    latents = [torch.full((32,), float(at)) for at in range(len(episode))]
    steps = imagined_turns(episode, latents)
    for at, ((turn, dream, action), real) in enumerate(zip(steps, turns(episode), strict=True)):
        assert turn == real
        assert dream == turn  # a sight is its text
        assert action == episode.steps[at].action
        seen = [*(exchange.observation for exchange in dream.history), dream.observation]
        assert [isinstance(text, ImaginedObservation) for text in seen] == [False] + [True] * at
        assert [float(text.latent[0]) for text in seen[1:] if isinstance(text, ImaginedObservation)] == [
            float(i) for i in range(at)
        ]


def test_divergence_is_that_of_the_next_token_distributions(
    fitted: Fitted, agent: HFPolicy, log: list[Trajectory]
) -> None:
    """Against one forward pass per token and no batch, at the last action's first token."""
    adapter = Adapter(32, 64, tokens=3, hidden=16).eval()
    soft = soft_policy(agent, [adapter])
    episodes = [episode for episode in log if len(episode) >= 3][:2]
    kept = [imagined_turns(episode, [torch.randn(32) for _ in episode.steps]) for episode in episodes]
    pairs = list(_pairs(agent, soft, kept))
    divergences = _divergence(agent, soft, pairs).detach()
    assert len(divergences) == sum(sum(pair.text.is_action) for pair in pairs)
    turn, dream, action = kept[0][-1]
    place = sum(pairs[0].text.is_action) - len(agent.encoder.action(action))
    with torch.no_grad():
        meant = agent.model(input_ids=torch.tensor([agent.encoder.prompt(turn)])).logits[0, -1].log_softmax(-1)
        log_probs = soft.model(input_ids=torch.tensor([soft.encoder.prompt(dream)])).logits[0, -1].log_softmax(-1)
    assert float(divergences[place]) == pytest.approx(
        float((meant.exp() * (meant - log_probs)).sum()), rel=1e-3, abs=1e-5
    )


def test_distillation_teaches_what_contrast_does_not(fitted: Fitted, agent: HFPolicy) -> None:
    assert isinstance(agent, ScoringHFPolicy)
    member = fitted.ensemble.members[1]
    table = agent.model.get_input_embeddings().weight
    weights = table.detach().clone()
    answers = [row.answer for row in fitted.ensemble.kernel.log.rows]
    schedule = AdapterConfig(epochs=8, hidden=128)
    contrast = fit_adapter(member, answers, agent.encoder.tokenizer, table, schedule).adapter
    start = {name: value.clone() for name, value in contrast.state_dict().items()}
    config = DistillationConfig(episodes=24, epochs=6, rate=3e-3, compared=24)
    learned = distil(agent, member, 1, fitted.ensemble.episodes, contrast, config)
    figures = learned.figures
    assert figures["kl_after"] < 0.5 * figures["kl_before"]
    assert figures["choice_kl_after"] < 0.5 * figures["choice_kl_before"]
    assert figures["agreement_after"] > figures["agreement_before"] + 0.1
    assert all(torch.equal(value, start[name]) for name, value in contrast.state_dict().items())
    assert torch.equal(table.detach(), weights)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in agent.model.parameters())
