"""Policies in imagination through soft tokens, against the text prompt, finite differences and closed forms."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from worldline.adwm.fit import Fitted
from worldline.adwm.imagination import ImaginationConfig
from worldline.adwm.soft_tokens.adapter import Adapter
from worldline.adwm.soft_tokens.guidance import Continuation, guide_through
from worldline.adwm.soft_tokens.tokens import soft_policy
from worldline.adwm.world_model_env import Guide, ImaginedEnvironment, ImaginedObservation, ImaginedWorld
from worldline.policies import mix
from worldline.policies.language_model.hf import HFPolicy, ScoringHFPolicy, from_model
from worldline.policies.settings import PolicyConfig
from worldline.rollout import Rollout, plan
from worldline.types import Exchange, InputError, Trajectory, Turn

GUIDED = ImaginationConfig(steps=6, alpha=0.5)


class Oracle(nn.Module):
    """Soft tokens that are the true token embeddings: its latents are the token ids themselves."""

    def __init__(self, table: Tensor, tokens: int) -> None:
        super().__init__()
        self.table, self.tokens = table, tokens

    def forward(self, z: Tensor) -> Tensor:
        return self.table[z.long()]


def remade(policy: HFPolicy, **settings: object) -> HFPolicy:
    return from_model(policy.model, policy.encoder.tokenizer, PolicyConfig(**settings), name=policy.name)


@pytest.fixture(scope="module")
def adapters(fitted: Fitted, reader: HFPolicy) -> list[Adapter]:
    torch.manual_seed(3)
    made = [Adapter(32, 32, tokens=3, hidden=16).eval() for _ in fitted.ensemble.members]
    for adapter in made:
        adapter.spread.fill_(2.0)  # random soft tokens, but far apart
    return made


def turns_of(texts: Sequence[str]) -> list[Turn]:
    """Turns whose past and present observations are `texts`, one more each time."""
    admissible = ("go to fridge 1", "open fridge 1", "look")
    return [
        Turn(
            family="household",
            goal="put a hot egg on the desk",
            observation=texts[step],
            admissible=admissible,
            history=tuple(Exchange(text, admissible[at % 3]) for at, text in enumerate(texts[:step])),
            seed=step,
        )
        for step in range(len(texts))
    ]


@pytest.mark.parametrize("prompt", ["transcript", "plain"])
def test_with_an_oracle_adapter_it_is_the_text_policy(reader: HFPolicy, prompt: str) -> None:
    tokenizer, table = reader.encoder.tokenizer, reader.model.get_input_embeddings().weight.detach()
    candidates = [f"You {did} the {what} 1." for did in ("open", "close", "see") for what in ("fridge", "desk", "egg")]
    ids = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in candidates}
    size = max(map(len, ids.values()), key=[*map(len, ids.values())].count)
    texts = [text for text in candidates if len(ids[text]) == size][:3]
    assert len(texts) == 3
    if prompt == "plain":  # which takes the full stop away from the present observation
        texts = [text.removesuffix(".") for text in texts]
        ids, size = {text: ids[f"{text}."][:-1] for text in texts}, size - 1
    plain = remade(reader, mode="choose", prompt=prompt)
    assert isinstance(plain, ScoringHFPolicy)
    soft = soft_policy(plain, [Oracle(table, size)])  # type: ignore[list-item]  # stands in for a fitted adapter
    assert isinstance(soft, ScoringHFPolicy)
    real = turns_of(["You are in a room.", *texts])
    observations = [ImaginedObservation("unreadable", torch.tensor(ids[text]).float()) for text in texts]
    dreamt = turns_of(["You are in a room.", *observations])
    actions = [turn.admissible or () for turn in real]
    for log_probs, meant in zip(soft.logprobs(dreamt, actions), plain.logprobs(real, actions), strict=True):
        np.testing.assert_allclose(log_probs, meant, atol=1e-4)
    assert [d.action for d in soft.act(dreamt)] == [d.action for d in plain.act(real)]


def test_an_imagined_observation_is_its_text_to_everybody_else(reader: HFPolicy) -> None:
    observation = ImaginedObservation("You open the fridge 1.", torch.ones(4))
    assert observation == "You open the fridge 1."
    assert {observation: 1}["You open the fridge 1."] == 1
    assert reader.encoder.prompt(turns_of([observation])[0]) == reader.encoder.prompt(turns_of([str(observation)])[0])


def test_an_observation_is_resolved_while_its_turn_is_held(reader: HFPolicy, adapters: list[Adapter]) -> None:
    """By the policy that read the turn and by no other; when the turn is gone, nothing of it is kept."""
    soft, other = soft_policy(reader, adapters), soft_policy(reader, adapters)
    turns = turns_of(["You are in a room.", ImaginedObservation("x", torch.randn(32))])
    ids = torch.tensor([soft.encoder.prompt(turns[-1])])
    assert int((ids < 0).sum()) == 3
    assert soft.model.embed(ids).shape == (*ids.shape, 32)
    with pytest.raises(KeyError):
        other.model.embed(ids)
    del turns
    with pytest.raises(KeyError):
        soft.model.embed(ids)


def test_what_is_remembered_is_what_would_be_read_again(reader: HFPolicy, adapters: list[Adapter]) -> None:
    """The prefix cache tells two observations apart, though both are soft tokens in the same place."""
    observations = [ImaginedObservation("same text", torch.randn(32), member) for member in (0, 1, 0)]
    dreamt = turns_of(["You are in a room.", *observations])
    others = turns_of(["You are in a room.", *(ImaginedObservation("same text", torch.randn(32)) for _ in range(3))])
    actions = [turn.admissible or () for turn in dreamt]
    kept, fresh = (soft_policy(remade(reader, mode="choose", cache_gib=gib), adapters) for gib in (4.0, 0.0))
    assert isinstance(kept, ScoringHFPolicy)
    assert isinstance(fresh, ScoringHFPolicy)
    for shown in (dreamt, others, dreamt):
        for a, b in zip(kept.logprobs(shown, actions), fresh.logprobs(shown, actions), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.abs(kept.logprobs(dreamt, actions)[3] - kept.logprobs(others, actions)[3]).max() > 1e-2


def test_a_prompt_over_its_budget_loses_whole_observations(reader: HFPolicy, adapters: list[Adapter]) -> None:
    soft = soft_policy(reader, adapters)
    soft.encoder.max_tokens = 60
    observations = [ImaginedObservation("x", torch.randn(32)) for _ in range(12)]
    prompt = soft.encoder.prompt(turns_of(["You are in a room.", *observations])[-1])
    assert len(prompt) <= 60
    assert sum(token < 0 for token in prompt) % 3 == 0
    assert [token for token in prompt if token < 0][-3:] == soft.encoder.soft_ids(observations[-1])  # type: ignore[attr-defined]  # what only a soft policy's encoder has


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_a_language_model_lives_in_the_imagined_world(
    fitted: Fitted, reader: HFPolicy, adapters: list[Adapter], mode: str
) -> None:
    world = ImaginedWorld(fitted.ensemble)
    policy = mix(soft_policy(remade(reader, mode=mode, max_new_tokens=6), adapters), 0.3)

    def actions_of(batch_size: int) -> dict[str, list[str]]:
        player = Rollout(world, policy, batch_size=batch_size, max_steps=8)
        played = {episode.id: episode for episode in player.play(plan(world, "log", 6, seed=2, run="x"))}
        assert not player.failed
        return {name: [step.action for step in episode.steps] for name, episode in played.items()}

    together, alone = actions_of(6), actions_of(1)
    assert np.mean([together[name] == alone[name] for name in alone]) > 0.8


def test_soft_tokens_are_read_where_observations_are_imagined(
    fitted: Fitted, reader: HFPolicy, adapters: list[Adapter], log: list[Trajectory]
) -> None:
    """The first observation is real and stays text; the later ones are soft, in the history too."""
    environment, turn = dreamt(fitted, log[0])
    soft = soft_policy(reader, adapters)
    prompt = soft.encoder.prompt(turn)
    imagined = [text for text in environment.shown if isinstance(text, ImaginedObservation)]
    assert len(imagined) == 2
    assert [token for token in prompt if token < 0] == [
        token
        for text in imagined
        for token in soft.encoder.soft_ids(text)  # type: ignore[attr-defined]  # what only a soft policy's encoder has
    ]
    assert log[0].steps[0].observation in soft.encoder.decode([token for token in prompt if token >= 0])


def dreamt(fitted: Fitted, episode: Trajectory) -> tuple[ImaginedEnvironment, Turn]:
    """Two steps into an imagined episode."""
    world = ImaginedWorld(fitted.ensemble, ImaginationConfig(reread=False))
    environment = world.make()
    seen, info = environment.reset(seed=5, task=episode.task_id)
    past = []
    for _ in range(2):
        action = (info["admissible"] or ("look",))[0]
        past.append(Exchange(seen, action))
        seen, _, _, _, info = environment.step(action)
    turn = Turn("household", episode.goal, seen, info["admissible"], tuple(past))
    return environment, turn


def test_guidance_is_the_gradient_of_the_policy_s_log_probability(
    fitted: Fitted, reader: HFPolicy, adapters: list[Adapter], log: list[Trajectory]
) -> None:
    """Against the policy's own scores: the value, and central differences of it."""
    policy = remade(reader, mode="generate", temperature=0.7, max_new_tokens=5)
    soft = soft_policy(policy, adapters)
    assert isinstance(soft, ScoringHFPolicy)
    environment, turn = dreamt(fitted, log[0])
    environment.action = (environment.allowed or ("look",))[0]
    log_policy = guide_through(soft)([environment])
    assert isinstance(log_policy, Continuation)
    z = torch.randn(1, 32, generator=torch.Generator().manual_seed(0))
    leaf = z.clone().requires_grad_()
    value = log_policy(leaf)
    gradient = torch.autograd.grad(value.sum(), leaf)[0]
    ids = log_policy._actions[0]

    def scored(latent: Tensor) -> float:
        past = (*turn.history, Exchange(turn.observation, environment.action or ""))
        after = replace(turn, observation=ImaginedObservation("", latent, environment.member), history=past)
        prompt = soft.encoder.prompt(after)
        totals = [s.token_logprobs[0][0].sum() for s in soft._score([prompt], [[ids]], 0.7)]
        return float(totals[0])

    with torch.no_grad():
        assert float(value) == pytest.approx(scored(z[0]), abs=1e-4)
        step = 1e-2
        for axis in range(0, 32, 5):
            ahead = torch.eye(32)[axis] * step
            slope = (scored(z[0] + ahead) - scored(z[0] - ahead)) / (2 * step)
            assert float(gradient[0, axis]) == pytest.approx(slope, abs=3e-3)


def sampled_latents(fitted: Fitted, config: ImaginationConfig, guide: Guide | None, log: list[Trajectory]) -> Tensor:
    """The latent of the first imagined step of 16 episodes."""
    world = ImaginedWorld(fitted.ensemble, config, guide)
    environments = [world.make() for _ in range(16)]
    for index, environment in enumerate(environments):
        environment.reset(seed=index, task=log[index].task_id)
        environment.begin("look")
    for environment in environments:
        environment.step("look")
    return torch.stack([environment.sampled for environment in environments if environment.sampled is not None])


def test_guidance_with_an_analytic_policy_moves_along_its_gradient(fitted: Fitted, log: list[Trajectory]) -> None:
    """log pi = z . v: every latent moves towards v, further with more alpha; alpha 0 is unguided to the bit."""
    v = torch.nn.functional.normalize(torch.randn(32, generator=torch.Generator().manual_seed(1)), dim=0)

    def guide(batch: object) -> Callable[[Tensor], Tensor]:
        return lambda z: z @ v

    plain = sampled_latents(fitted, replace(GUIDED, alpha=0.0), None, log)
    assert torch.equal(sampled_latents(fitted, replace(GUIDED, alpha=0.0), guide, log), plain)
    little, much = (sampled_latents(fitted, replace(GUIDED, alpha=alpha), guide, log) for alpha in (0.5, 2.0))
    moved = (little - plain) @ v
    assert bool((moved > -1e-3).all())  # some are at the edge of the box that keeps estimates in
    assert float(moved.mean()) > 0.003
    assert float(((much - plain) @ v).mean()) > 2 * float(moved.mean())


def test_guidance_through_a_language_model_makes_its_action_likelier(
    fitted: Fitted, reader: HFPolicy, adapters: list[Adapter], log: list[Trajectory]
) -> None:
    """log pi_e of its own next action is higher, on average, at guided latents than at unguided ones."""
    policy = soft_policy(remade(reader, mode="generate", temperature=0.0, max_new_tokens=4), adapters)
    scores = {}
    for alpha in (0.0, 3.0):
        z = sampled_latents(fitted, replace(GUIDED, alpha=alpha, clip=10.0), guide_through(policy), log)
        world = ImaginedWorld(fitted.ensemble)
        environments = [world.make() for _ in range(16)]
        for index, environment in enumerate(environments):
            environment.reset(seed=index, task=log[index].task_id)
            environment.action = "look"
        with torch.no_grad():
            scores[alpha] = float(guide_through(policy)(environments)(z).mean())
    assert scores[3.0] > scores[0.0]


def test_a_prompt_without_room_for_the_observation_is_not_guided(
    fitted: Fitted, reader: HFPolicy, adapters: list[Adapter], log: list[Trajectory]
) -> None:
    """Nothing depends on the latent there: the gradient is 0, and the sample is the unguided one."""
    policy = soft_policy(remade(reader, mode="generate", temperature=0.0, max_new_tokens=4), adapters)
    policy.encoder.max_tokens = 16
    plain = sampled_latents(fitted, replace(GUIDED, alpha=0.0), None, log)
    guided = sampled_latents(fitted, replace(GUIDED, alpha=3.0, clip=10.0), guide_through(policy), log)
    assert torch.allclose(guided, plain, atol=1e-6)


def test_guidance_needs_soft_tokens(reader: HFPolicy) -> None:
    with pytest.raises(InputError, match="--interface soft or distilled"):
        guide_through(reader)
