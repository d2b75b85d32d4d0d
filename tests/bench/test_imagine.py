"""`bench imagine`: what it counts and compares. How long things take is not a matter for a test."""

from collections.abc import Sequence
from functools import partial

import pytest
import torch

from brief_fits import BRIEF, make_fits_brief
from worldline import envs
from worldline.adwm.fit import FitSettings
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.model import PRESETS
from worldline.bench import imagine
from worldline.bench.imagine import ImagineBenchConfig, Sweep, run
from worldline.policies.mixing import RandomPolicy
from worldline.rollout import Rollout, plan
from worldline.types import Decision, Turn, WorldlineError


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    make_fits_brief(monkeypatch, 10)
    steps = PRESETS["small"].diffusion_steps  # more than both samplers take
    monkeypatch.setitem(PRESETS, "small", BRIEF.model_copy(update={"diffusion_steps": steps}))


class Counting(RandomPolicy):
    """Chance that counts the turns it sees."""

    turns_seen = 0

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        self.turns_seen += len(turns)
        return super().act(turns)


def test_a_sweep_plays_every_epsilon_in_one_batch() -> None:
    world = envs.load("household")
    wanted = plan(world, "train", 4, seed=0, run="sweep")
    policy = Counting()
    sweep = Sweep(policy)
    never, always = sweep.episodes(wanted, 1.0, 5), sweep.episodes(wanted, 0.0, 5)
    assert len({episode.id for episode in (*never, *always)}) == 8
    played = list(Rollout(world, sweep, batch_size=8, max_steps=5).play([*never, *always]))
    assert policy.turns_seen == sum(len(episode) for episode in played if episode.id.endswith("@0")) > 0


def test_where_nothing_was_imagined_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Rollout):
        def _advance(self, running: object, decision: Decision) -> None:
            self.failed.append("e0 (task t0): RuntimeError: broken")

    world = envs.load("household")
    monkeypatch.setattr(imagine, "ImaginedWorld", lambda *given: world)
    monkeypatch.setattr(imagine, "Rollout", Failing)
    planned, how = plan(world, "train", 2, seed=0, run="x"), IMAGINATION_PRESETS["adwm"]
    with pytest.raises(WorldlineError, match=r"^no step was imagined: .* e0 \(task t0\): RuntimeError: broken$"):
        imagine._play(None, RandomPolicy(), planned, how, 2, ImagineBenchConfig())  # type: ignore[arg-type]  # no ensemble is read


def test_both_samplers_are_measured_together_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations: dict[tuple[int, int], int] = {}
    plain = imagine.sample

    def counted(predict, start, abar, **how):  # type: ignore[no-untyped-def]  # passed on as they came
        def counting(zk: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            key = (len(zk), how["steps"])
            evaluations[key] = evaluations.get(key, 0) + 1
            return predict(zk, k)

        return plain(counting, start, abar, **how)

    monkeypatch.setattr(imagine, "sample", counted)
    monkeypatch.setattr(imagine, "_ROUNDS", 2)
    monkeypatch.setattr(imagine, "FitSettings", partial(FitSettings, text_steps=40, replayed_episodes=0))
    measured = run(ImagineBenchConfig(episodes=12, epochs=1, batch=6, alone=2, steps=3))
    rounds = 2 * 12
    assert evaluations == {(6, 10): 10 * rounds, (6, 50): 50 * rounds, (1, 10): 10 * rounds}
    assert measured.figures["fit_episodes"] == 12
    assert [(row["imagined"], row["batch"]) for row in measured.rows[1:]] == [
        ("DDIM-10", 6),
        ("DDIM-10", 1),
        ("DDPM-50", 6),
    ]
    assert all(0 < row["steps"] <= 3 * row["batch"] for row in measured.rows[3:])
    assert all(value > 0 for value in measured.figures.values())
