import json
from pathlib import Path

import pytest
import torch

from worldline.adwm.model import PRESETS, LogFacts, Preset, Texts, WorldModel, model_card, parameter_counts
from worldline.types import InputError

FACTS = LogFacts(env="toy", horizon=8, episodes=3, policies=("a", "b"))
TABLE_4 = {
    "observation_encoder": 5_053_248,
    "history_encoder": 813_696,
    "projector": 608_768,
    "score": 526_848,
    "clone_head": 170_007,
    "reward_head": 115_457,
    "termination_head": 49_665,
    "inverse_head": 44_055,
    "action_encoder": 768,
}


def build(preset: Preset = "small") -> WorldModel:
    torch.manual_seed(0)
    actions = tuple(f"do {i}" for i in range(23)) if preset == "paper" else ()
    return WorldModel(PRESETS[preset], FACTS, actions).eval()


def texts(model: WorldModel, *rows: str) -> Texts:
    ids = [model.tokenizer.encode(row) for row in rows]
    width = max(map(len, ids))
    table = torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(ids):
        table[i, : len(row)] = torch.tensor(row)
    return Texts(table, torch.zeros_like(table), torch.tensor([model.row(row) for row in rows]))


def test_paper_preset_has_the_papers_table_4_to_the_digit() -> None:
    counts = parameter_counts(build("paper"))
    assert counts == TABLE_4
    assert sum(counts.values()) == 7_382_512


@pytest.mark.parametrize("preset", ["paper", "small", "base"])
def test_a_saved_model_comes_back_the_same(preset: Preset, tmp_path: Path) -> None:
    model = build(preset)
    model.write(tmp_path / "wm")
    again = WorldModel.from_pretrained(tmp_path / "wm")
    assert again.architecture == model.architecture
    assert again.facts == FACTS
    assert again.actions == model.actions
    batch = texts(model, "you see an apple", "nothing")
    assert torch.equal(model.encode_observation(batch), again.encode_observation(batch))
    assert torch.equal(model.encode_action(batch), again.encode_action(batch))
    assert {p.name for p in (tmp_path / "wm").iterdir()} == {"README.md", "config.json", "model.safetensors"}
    assert not set(model.state_dict()) ^ set(again.state_dict())


def test_what_is_not_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json is missing"):
        WorldModel.from_pretrained(tmp_path)
    build().write(tmp_path / "small")
    (tmp_path / "small" / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match="not a readable world model"):
        WorldModel.from_pretrained(tmp_path / "small")
    build("paper").write(tmp_path / "paper")
    (tmp_path / "small" / "model.safetensors").write_bytes((tmp_path / "paper" / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match="not a readable world model"):
        WorldModel.from_pretrained(tmp_path / "small")


def test_what_older_versions_wrote_of_the_log_is_read(tmp_path: Path) -> None:
    build().write(tmp_path / "wm")
    config = json.loads((tmp_path / "wm" / "config.json").read_text())
    config["facts"]["dense"] = True
    (tmp_path / "wm" / "config.json").write_text(json.dumps(config))
    assert WorldModel.from_pretrained(tmp_path / "wm").facts == FACTS
    config["facts"]["sparse"] = True
    (tmp_path / "wm" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="sparse"):
        WorldModel.from_pretrained(tmp_path / "wm")


def test_latents_have_unit_scale_and_unknown_actions_the_null_row() -> None:
    model = build("paper")
    z = model.encode_observation(texts(model, "a room", "another room with more in it"))
    assert torch.allclose(z.pow(2).mean(-1), torch.ones(2), atol=1e-2)
    assert model.row("do 3") == 3
    assert torch.equal(model.encode_action(texts(model, "never seen")), model.null_action(1))


@pytest.mark.parametrize("preset", ["paper", "small"])
def test_advancing_step_by_step_is_reading_the_history(preset: Preset) -> None:
    model = build(preset)
    inputs = model.history_encoder.enter.in_features
    tokens = torch.randn(2, 6, inputs)
    whole = model.history_encoder(tokens)
    states = [None, None]
    for t in range(6):
        read = model.advance(tokens[:, t], states)
        states = read.split()
    assert torch.allclose(read.h, whole[:, -1], atol=1e-5)


def test_a_history_beyond_the_window_keeps_its_newer_half() -> None:
    model = build("paper")
    window = model.architecture.window
    tokens = torch.randn(1, window + 1, model.history_encoder.enter.in_features)
    states = [None]
    for t in range(window + 1):
        read = model.advance(tokens[:, t], states)
        states = read.split()
    recent = model.history_encoder(tokens[:, -(window // 2 + 1) :])[:, -1]
    assert torch.allclose(read.h, recent, atol=1e-5)
    for _ in range(2 * window):
        states = model.advance(tokens[:, 0], states).split()
    assert states[0].length <= window


def test_too_many_table_actions_are_refused() -> None:
    with pytest.raises(InputError, match="at most 256"):
        WorldModel(PRESETS["paper"], FACTS, tuple(str(i) for i in range(257)))


def test_the_card_says_what_the_model_was_fitted_on() -> None:
    card = model_card(build(), {"hazard_auc": 0.93})
    assert "`toy`" in card
    assert "3 episodes of a, b" in card
    assert "| hazard_auc | 0.93 |" in card


def test_rewards_are_shares_of_the_range_of_the_log() -> None:
    facts = FACTS.model_copy(update={"reward_low": -2.0, "reward_high": 6.0})
    assert [facts.reward(share) for share in (0.0, 0.25, 1.0)] == [-2.0, 0.0, 6.0]
    rewards = torch.tensor([-2.0, 1.0, 6.0])
    assert torch.equal(facts.reward_share(rewards), torch.tensor([0.0, 0.375, 1.0]))
    assert torch.equal(facts.reward(facts.reward_share(rewards)), rewards)
