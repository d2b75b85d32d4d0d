"""One protocol for all interfaces: what is chosen, what is refused, what is kept."""

from pathlib import Path

import numpy as np
import pytest
from tiny_house import mixed

from worldline.adwm.fit import Fitted
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.soft_tokens.adapter import AdapterConfig
from worldline.adwm.soft_tokens.connect import Interface, PolicyInterfaceConfig, connect, decodable
from worldline.adwm.soft_tokens.distillation import DistillationConfig
from worldline.adwm.soft_tokens.tokens import SoftModel
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.policies import load, mix
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import InputError, World

QUICK = PolicyInterfaceConfig(
    adapter=AdapterConfig(epochs=2, hidden=32),
    distillation=DistillationConfig(episodes=8, epochs=1, compared=4),
    redraw=2,
)


def test_text_is_for_everybody(fitted: Fitted, house: World, agent: HFPolicy) -> None:
    for policy in (mixed(house, 0.2), load("random"), agent):
        channel = connect(policy, fitted.ensemble, "text")
        assert channel.policy is policy
        assert channel.guide is None


@pytest.mark.parametrize("interface", ["soft", "distilled"])
def test_soft_tokens_need_weights(fitted: Fitted, house: World, interface: Interface) -> None:
    for policy in (load("random"), load("expert", house)):
        with pytest.raises(InputError, match=f"--interface {interface}: .* has no weights .*--interface text$"):
            connect(policy, fitted.ensemble, interface)


def test_auto_follows_its_rule(fitted: Fitted, house: World, agent: HFPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect(load("random"), fitted.ensemble, "auto").interface == "text"
    for share, expected in ((0.81, "text"), (0.79, "distilled")):
        monkeypatch.setattr("worldline.adwm.soft_tokens.connect.decodable", lambda kernel, share=share: share)
        channel = connect(agent, fitted.ensemble, "auto", QUICK)
        assert channel.interface == expected
        assert f"{share:.0%}" in channel.reason


def test_decodable_counts_answers_other_episodes_gave(fitted: Fitted) -> None:
    """All logged answers: a step is missed only where its text is new, names and numbers apart."""
    kernel = fitted.ensemble.kernel
    others: dict[str, set[int]] = {}
    for row in kernel.log.rows:
        others.setdefault(row.answer, set()).add(row.episode)
    repeated = np.mean([len(others[row.answer]) > 1 for row in kernel.log.rows])
    share = decodable(kernel, 10**6)
    assert 0.9 * repeated < share < 1
    assert decodable(kernel, 20) != share, "a sample of the episodes"


def test_adapters_are_fitted_once(fitted: Fitted, agent: HFPolicy, tmp_path: Path) -> None:
    first = connect(agent, fitted.ensemble, "distilled", QUICK, folder=tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert [name.partition("-")[0] for name in files] == ["distilled"] * 2 + ["soft"] * 2
    times = [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]
    again = connect(agent, fitted.ensemble, "distilled", QUICK, folder=tmp_path)
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())] == times
    assert again.figures == first.figures
    assert isinstance(first.policy, HFPolicy)
    assert isinstance(again.policy, HFPolicy)
    for a, b in zip(_adapters(first.policy), _adapters(again.policy), strict=True):
        assert all((a.state_dict()[name] == b.state_dict()[name]).all() for name in a.state_dict())
    (tmp_path / files[0]).write_bytes(b"")
    with pytest.raises(InputError, match="delete it"):
        connect(agent, fitted.ensemble, "distilled", QUICK, folder=tmp_path)


def _adapters(policy: HFPolicy) -> list[object]:
    assert isinstance(policy.model, SoftModel)
    return list(policy.model.adapters)


@pytest.mark.parametrize(
    "config",
    [IMAGINATION_PRESETS["adwm"], ImaginationConfig(steps=2, w=0.5, alpha=0.1, decode="nearest", reread=False)],
)
def test_a_value_through_soft_tokens_with_and_without_guidance(
    fitted: Fitted, agent: HFPolicy, config: ImaginationConfig
) -> None:
    channel = connect(agent, fitted.ensemble, "soft", QUICK)
    assert 0 <= channel.figures["top1"] <= 1
    starts = fitted.ensemble.episodes[:4]
    world = ImaginedWorld(fitted.ensemble, config, channel.guide, starts)
    imagined = imagine(world, mix(channel.policy, 0.2), rollouts=1)
    assert len(imagined.values) == len(starts)
    assert np.isfinite(imagined.values).all()
    assert {episode.policy for episode in imagined.trajectories} == {"hf:agent+eps0.2"}
