"""wm-text: an overfit language model is the world it has memorised, and any other is a world like any other."""

from typing import Any

import numpy as np
import pytest
from tiny_house import mixed

from tiny_llama import tiny_llama
from worldline.adwm.fit import Fitted
from worldline.adwm.rivals.language_model import TextWorld
from worldline.policies import TEMPLATES, Encoder, PolicyConfig
from worldline.policies.language_model.hf import HFPolicy, from_model
from worldline.rollout import Rollout, plan
from worldline.sft.clone import CloningSchedule, clone
from worldline.sft.demonstrations import of_log
from worldline.sft.examples import sequences, texts
from worldline.sft.small import small_tokenizer
from worldline.types import Environment, InputError, Trajectory, World


def generator(episodes: list[Trajectory], folder: Any, epochs: float, outcome: bool = True) -> HFPolicy:
    """A tiny language model trained on the observations of `episodes`."""
    shown = [of_log(episode) for episode in episodes]
    tokenizer = small_tokenizer(texts(shown), 500)
    model = tiny_llama(tokenizer, 64, intermediate_size=192)
    examples = sequences(shown, Encoder(tokenizer, TEMPLATES["transcript"], 1900), "observation", outcome)
    if epochs:
        schedule = CloningSchedule(epochs, 512, 5e-3, muon_rate=0.01)
        clone(model, examples, schedule, pad=0, seed=0, folder=folder, save=lambda made: made.mkdir(parents=True))
    model.config.worldline = {"prompt": "transcript", "history": None, "outcome": outcome}
    return from_model(model.eval(), tokenizer, PolicyConfig(), name="hf:speaker")


@pytest.fixture(scope="module")
def few(log: list[Trajectory]) -> list[Trajectory]:
    """The shortest episodes of three tasks."""
    best: dict[str, Trajectory] = {}
    for episode in sorted(log, key=len):
        best.setdefault(episode.task_id, episode)
    return sorted(best.values(), key=len)[:3]


@pytest.fixture(scope="module")
def memorised(few: list[Trajectory], fitted: Fitted, tmp_path_factory: pytest.TempPathFactory) -> TextWorld:
    return TextWorld(generator(few, tmp_path_factory.mktemp("speaker"), 60), fitted.ensemble, temperature=0.0)


def test_an_overfit_model_reproduces_its_log_exactly(memorised: TextWorld, few: list[Trajectory]) -> None:
    """Every observation, reward and end of every logged transition, the episodes side by side."""
    environments = [memorised.make() for _ in few]
    for environment, episode in zip(environments, few, strict=True):
        seen, info = environment.reset(seed=0, task=episode.task_id)
        assert seen == episode.steps[0].observation
        assert info["goal"] == episode.goal
    for at in range(max(map(len, few))):
        going = [pair for pair in zip(environments, few, strict=True) if at < len(pair[1])]
        for environment, episode in going:
            environment.begin(episode.steps[at].action)
        for environment, episode in going:
            observation, reward, terminated, _, info = environment.step(episode.steps[at].action)
            last = at + 1 == len(episode)
            assert observation == (episode.final_observation if last else episode.steps[at + 1].observation).strip()
            assert reward == episode.steps[at].reward
            assert terminated == (last and episode.terminated)
            assert info["won"] == bool(last and episode.success)
    assert memorised.malformed == 0


def test_it_is_a_world_like_any_other(
    fitted: Fitted, few: list[Trajectory], tmp_path_factory: pytest.TempPathFactory, house: World
) -> None:
    """Even an untrained one can be played in to the end; sampling depends on the episode's seed only."""
    policy = generator(few, tmp_path_factory.mktemp("untrained"), 0)
    world = TextWorld(policy, fitted.ensemble)
    world.max_steps, world.generator.longest = 4, 12
    assert isinstance(world, World)
    assert isinstance(world.make(), Environment)

    def dialogues(batch_size: int) -> dict[str, list[tuple[str, str]]]:
        player = Rollout(world, mixed(house, 0.5), batch_size=batch_size)
        played = list(player.play(plan(world, "log", 4, seed=3, run="x")))
        assert not player.failed
        assert all(len(episode) == 4 and episode.truncated for episode in played)
        return {episode.id: [(step.observation, step.action) for step in episode.steps] for episode in played}

    together, alone = dialogues(4), dialogues(1)
    assert np.mean([together[name] == alone[name] for name in alone]) >= 0.75
    assert world.malformed > 0
    with pytest.raises(InputError, match="not in the log"):
        world.make().reset(seed=0, task="train/5999")


def test_admissible_actions_follow_the_log(memorised: TextWorld, few: list[Trajectory]) -> None:
    """On a logged path, what is offered is mostly what was."""
    shares = []
    for episode in few:
        environment = memorised.make()
        environment.reset(seed=0, task=episode.task_id)
        for step, after in zip(episode.steps, episode.steps[1:], strict=False):
            info = environment.step(step.action)[4]
            offered, true = set(info["admissible"] or ()), set(after.admissible or ())
            shares.append(len(offered & true) / len(offered | true))
    assert np.mean(shares) > 0.7


def test_a_clone_goes_its_own_way(memorised: TextWorld, few: list[Trajectory]) -> None:
    environment = memorised.make()
    environment.reset(seed=0, task=few[0].task_id)
    twin = environment.clone()
    action = few[0].steps[0].action
    assert twin.step(action)[0] == environment.step(action)[0]
    assert len(twin.state.actions) == 1


def test_a_model_without_outcomes_leaves_them_to_the_kernel(
    fitted: Fitted, few: list[Trajectory], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The world's own answer written again: reward and end are those that the kernel model gives it."""
    policy = generator(few, tmp_path_factory.mktemp("silent"), 0, outcome=False)
    world = TextWorld(policy, fitted.ensemble)
    won = next(episode for episode in few if episode.success)
    written = iter(won.next_observations)
    world.generator.answers = lambda turns, actions, seeds: [next(written)]  # type: ignore[method-assign]  # answers that were logged, without the model
    environment = world.make()
    environment.reset(seed=0, task=won.task_id)
    ends = [environment.step(step.action)[1:3] for step in won.steps]
    assert ends == [(step.reward, at + 1 == len(won)) for at, step in enumerate(won.steps)]
    assert world.malformed == 0


def test_outcomes_are_only_for_worlds(few: list[Trajectory], reader: HFPolicy) -> None:
    with pytest.raises(InputError, match="--outcome"):
        sequences([of_log(few[0])], reader.encoder, "action", outcome=True)
