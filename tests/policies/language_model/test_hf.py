"""Language-model policies against one plain forward pass per sequence, and against transformers' own generate."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from worldline import policies
from worldline.cli import main
from worldline.policies import PolicyConfig
from worldline.policies.language_model import hf
from worldline.policies.language_model.in_place import InPlaceSampler
from worldline.types import InputError, ScoringPolicy, Turn, WorldlineError

Make = Callable[..., Turn]


def brute_force(model: Any, prompt: list[int], answer: list[int], temperature: float = 1.0) -> np.ndarray:
    """Log-probability of each token of `answer`: no cache, no padding, one sequence."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0].double() / temperature
    logprobs = torch.log_softmax(logits, -1)
    return np.array([logprobs[len(prompt) + i - 1, token].item() for i, token in enumerate(answer)])


def entropy(model: Any, prompt: list[int], answer: list[int]) -> float:
    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0].double()
    p = torch.softmax(logits, -1)[len(prompt) - 1 : -1]
    return float(-(p * p.log()).sum(-1).mean())


@pytest.fixture
def turns(make_turn: Make) -> list[Turn]:
    return [make_turn(steps=i % 5, seed=100 + i, observation="You see nothing. " * (1 + i % 3)) for i in range(7)]


@pytest.mark.parametrize("prompt", ["transcript", "plain", "paper", "react"])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_choose_equals_brute_force(
    model: Any, tokenizer: Any, turns: list[Turn], prompt: str, temperature: float
) -> None:
    settings = PolicyConfig(prompt=prompt, mode="choose", temperature=temperature, keep_prompts=True)
    policy = hf.from_model(model, tokenizer, settings)
    decisions = policy.act(turns)
    scores = policy.logprobs(turns, [[*turn.admissible, "eat the desk"] for turn in turns])
    for turn, decision, log_probs in zip(turns, decisions, scores, strict=True):
        ids = policy.encoder.prompt(turn)
        answers = [policy.encoder.action(action) for action in turn.admissible]
        tokens = [brute_force(model, ids, answer) for answer in answers]
        totals = np.array([t.sum() for t in tokens]) / temperature
        expected = totals - np.log(np.exp(totals - totals.max()).sum()) - totals.max()
        chosen = turn.admissible.index(decision.action)
        assert log_probs[:-1] == pytest.approx(expected, abs=1e-4)
        assert log_probs[-1] == -np.inf
        assert decision.logprob == pytest.approx(expected[chosen], abs=1e-4)
        assert decision.token_ids == tuple(answers[chosen])
        assert decision.token_logprobs == pytest.approx(tokens[chosen], abs=1e-4)
        assert decision.entropy == pytest.approx(entropy(model, ids, answers[chosen]), abs=1e-4)
        assert decision.prompt_ids == tuple(ids)


@pytest.mark.parametrize("mode", ["choose", "generate"])
@pytest.mark.parametrize("in_place", [True, False])
def test_decisions_come_in_batches_outside_of_inference_mode_and_of_foreseen_turns(
    model: Any, tokenizer: Any, turns: list[Turn], mode: Any, in_place: bool
) -> None:
    settings = PolicyConfig(mode=mode, max_new_tokens=12, prompt="plain", keep_prompts=True)
    expected = hf.from_model(model, tokenizer, settings).act(turns)
    policy = hf.from_model(model, tokenizer, settings, sampler=InPlaceSampler(model) if in_place else None)
    policy.foresee(turns[2:5])
    decisions = {}
    for batch in policy.decide(turns):
        assert not torch.is_inference_mode_enabled()
        decisions |= batch
    for row, decision in enumerate(expected):
        assert decisions[row].token_ids == decision.token_ids
        assert decisions[row].prompt_ids == decision.prompt_ids
    assert policy.counts.prompts == len(turns)


def test_choose_draws_from_its_own_distribution(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode="choose", temperature=3.0))
    turn = make_turn(steps=1)
    probabilities = np.exp(policy.logprobs([turn], [turn.admissible])[0])
    drawn = [d.action for d in policy.act([make_turn(steps=1, seed=i) for i in range(2000)])]
    share = np.array([drawn.count(action) for action in turn.admissible]) / 2000
    assert probabilities.sum() == pytest.approx(1.0)
    assert np.abs(share - probabilities).max() < 4 * np.sqrt(0.25 / 2000)


def test_choose_greedy_takes_the_likeliest(model: Any, tokenizer: Any, turns: list[Turn]) -> None:
    warm = hf.from_model(model, tokenizer, PolicyConfig(mode="choose"))
    cold = hf.from_model(model, tokenizer, PolicyConfig(mode="choose", temperature=0))
    best = [
        turn.admissible[int(scores.argmax())]
        for turn, scores in zip(turns, warm.logprobs(turns, [turn.admissible for turn in turns]), strict=True)
    ]
    assert [d.action for d in cold.act(turns)] == best
    assert [d.logprob for d in cold.act(turns)] == [0.0] * len(turns)


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_decisions_do_not_depend_on_the_batch(model: Any, tokenizer: Any, turns: list[Turn], mode: str) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode=mode, max_new_tokens=12))
    together = policy.act(turns)
    alone = [policy.act([turn])[0] for turn in turns]
    reversed_ = policy.act(turns[::-1])[::-1]
    in_chunks = hf.from_model(model, tokenizer, PolicyConfig(mode=mode, max_new_tokens=12, batch_tokens=200)).act(turns)
    for other in (alone, reversed_, in_chunks):
        assert [d.token_ids for d in other] == [d.token_ids for d in together]
        assert [d.action for d in other] == [d.action for d in together]
        assert [d.logprob for d in other] == pytest.approx([d.logprob for d in together], abs=1e-4)
        assert [d.entropy for d in other] == pytest.approx([d.entropy for d in together], abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_generated_tokens_have_their_brute_force_logprobs(
    model: Any, tokenizer: Any, turns: list[Turn], temperature: float
) -> None:
    settings = PolicyConfig(temperature=temperature, max_new_tokens=10)
    policy = hf.from_model(model, tokenizer, settings)
    for turn, decision in zip(turns, policy.act(turns), strict=True):
        expected = brute_force(model, policy.encoder.prompt(turn), list(decision.token_ids), temperature)
        assert decision.token_logprobs == pytest.approx(expected, abs=1e-4)
        assert decision.logprob == pytest.approx(expected.sum(), abs=1e-4)
        if temperature == 1.0:
            expected_entropy = entropy(model, policy.encoder.prompt(turn), list(decision.token_ids))
            assert decision.entropy == pytest.approx(expected_entropy, abs=1e-4)


def test_greedy_equals_transformers_generate(model: Any, tokenizer: Any, turns: list[Turn]) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(prompt="paper", temperature=0, max_new_tokens=20))
    for turn, decision in zip(turns, policy.act(turns), strict=True):
        prompt = torch.tensor([policy.encoder.prompt(turn)])
        ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=20)
        assert list(decision.token_ids) == ids[0, prompt.shape[1] :].tolist()
        assert decision.logprob is None


def test_first_tokens_follow_the_models_distribution(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(temperature=1.5, max_new_tokens=1))
    decisions = policy.act([make_turn(steps=0, seed=i) for i in range(3000)])
    with torch.no_grad():
        logits = model(torch.tensor([policy.encoder.prompt(make_turn(steps=0))])).logits[0, -1]
    p = torch.softmax(logits / 1.5, -1).numpy()
    share = np.bincount([d.token_ids[0] for d in decisions], minlength=len(p)) / 3000
    assert np.abs(share - p).max() < 4 * np.sqrt(0.25 / 3000)


def test_a_response_ends_at_its_line_or_at_end_of_text(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(temperature=2.0, max_new_tokens=200))
    decisions = policy.act([make_turn(seed=i) for i in range(30)])
    for decision in decisions:
        *body, last = decision.token_ids
        assert not any("\n" in tokenizer.decode([token]) or token == tokenizer.eos_token_id for token in body)
        ended = "\n" in tokenizer.decode([last]) or last == tokenizer.eos_token_id
        assert ended or len(decision.token_ids) == 200
        assert decision.action == decision.response.strip().split("\n")[0].strip()


def test_only_control_tokens_of_the_checkpoint_end_a_response(model: Any, tokenizer: Any, make_turn: Make) -> None:
    ends = copy.deepcopy(model)
    plain, control = tokenizer.encode("a")[0], tokenizer.convert_tokens_to_ids("<|assistant|>")
    ends.generation_config.eos_token_id = [plain, control]
    settings = PolicyConfig(prompt="paper", temperature=4.0, max_new_tokens=300)
    decisions = hf.from_model(ends, tokenizer, settings).act([make_turn(seed=i) for i in range(10)])
    body = {token for decision in decisions for token in decision.token_ids[:-1]}
    assert plain in body
    assert control not in body
    assert control in {decision.token_ids[-1] for decision in decisions}


def test_generating_policy_scores_unrestricted_text(model: Any, tokenizer: Any, turns: list[Turn]) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(temperature=0.7))
    actions = [["look", "go to cabinet 1", "eat the desk"], [], *[["go"]] * (len(turns) - 2)]
    for turn, candidates, log_probs in zip(turns, actions, policy.logprobs(turns, actions), strict=True):
        prompt = policy.encoder.prompt(turn)
        expected = [brute_force(model, prompt, policy.encoder.action(action), 0.7).sum() for action in candidates]
        assert log_probs == pytest.approx(expected, abs=1e-4)


def test_greedy_generation_scores_zero_for_what_it_does(model: Any, tokenizer: Any, turns: list[Turn]) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(temperature=0, max_new_tokens=5))
    scores = policy.logprobs(turns, [["look"]] * len(turns))
    assert all(log_probs[0] == -np.inf for log_probs in scores)
    assert all(decision.logprob == 0.0 for decision in policy.act(turns))


def test_only_bare_actions_can_be_scored(model: Any, tokenizer: Any) -> None:
    assert isinstance(hf.from_model(model, tokenizer, PolicyConfig(prompt="plain")), ScoringPolicy)
    assert isinstance(hf.from_model(model, tokenizer, PolicyConfig(prompt="paper", mode="choose")), ScoringPolicy)
    assert not isinstance(hf.from_model(model, tokenizer, PolicyConfig(prompt="paper")), ScoringPolicy)


def test_models_that_cannot_share_a_prefix_are_scored_all_the_same(
    model: Any, tokenizer: Any, turns: list[Turn], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode="choose"))
    expected = policy.act(turns)
    monkeypatch.setattr("worldline.policies.language_model.scoring.shares_prefix", lambda model: False)
    for decision, other in zip(expected, policy.act(turns), strict=True):
        assert decision.action == other.action
        assert decision.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-4)
        assert decision.entropy == pytest.approx(other.entropy, abs=1e-4)
    small = hf.from_model(model, tokenizer, PolicyConfig(batch_tokens=300))
    candidates = [["look", "go"], [], *[["inventory"]] * (len(turns) - 2)]
    log_probs = small.logprobs(turns, candidates)
    monkeypatch.undo()
    for scores, other in zip(log_probs, small.logprobs(turns, candidates), strict=True):
        assert scores == pytest.approx(other, abs=1e-4)


def test_over_long_prompts_are_cut_to_the_models_context(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(max_new_tokens=8, max_prompt_tokens=100_000))
    turns = [make_turn(observation="apple desk " * 5000), make_turn(steps=400), make_turn(goal="egg " * 5000)]
    prompts = policy.encoder.prompts(turns)
    assert all(len(prompt) <= 1024 - 8 for prompt in prompts)
    assert len(policy.act(turns)) == 3
    assert policy.counts.dropped_history > 0
    assert policy.counts.cut_observation > 0


def test_a_model_in_training_is_left_in_training(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(max_new_tokens=2))
    model.train()
    policy.act([make_turn()])
    assert model.training
    model.eval()


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("paper", "worldline: Input should be"),
        ({"prompt": ["plain"]}, "worldline.prompt: Input should be"),
        ({"prompt": "poem"}, "worldline.prompt: Input should be"),
        ({"prompt": "plain", "history": "2"}, "worldline.history: Input should be"),
        ({"outcome": "yes"}, "worldline.outcome: Input should be"),
    ],
)
def test_a_checkpoint_whose_own_entry_is_broken_is_one_line(
    model: Any, tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: object, line: str
) -> None:
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"worldline": entry}
    (tmp_path / "config.json").write_text(json.dumps(config))
    capsys.readouterr()
    assert main(["collect", "household", "--policy", f"hf:{tmp_path}", "--episodes", "1"]) == 2
    err = capsys.readouterr().err
    assert f"hf:{tmp_path}: config.json: {line}" in err
    assert err.count("\n") == 1


def test_saved_checkpoint_plays_with_the_prompt_it_was_trained_with(
    model: Any, tokenizer: Any, turns: list[Turn], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model.config.worldline = {"prompt": "plain", "history": 1}
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    del model.config.worldline
    capfd.readouterr()
    policy = policies.load(f"hf:{tmp_path}", None, PolicyConfig(mode="choose"))
    printed = capfd.readouterr()
    expected = hf.from_model(model, tokenizer, PolicyConfig(mode="choose", prompt="plain", history=1))
    assert printed.out == printed.err == ""
    assert policy.name == f"hf:{tmp_path}"
    assert [d.action for d in policy.act(turns)] == [d.action for d in expected.act(turns)]


def test_no_admissible_actions_to_choose_from(model: Any, tokenizer: Any, make_turn: Make) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode="choose"))
    with pytest.raises(InputError, match="lists none"):
        policy.act([make_turn(admissible=None)])


def test_what_is_not_a_model(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    for name in ("empty", "broken", "cut", "mute"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "broken" / "config.json").write_text("{}")
    for name in ("cut", "mute"):
        model.save_pretrained(tmp_path / name)
    tokenizer.save_pretrained(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    for path in ("missing/one", "empty", "broken", "file", "cut", "mute"):
        with pytest.raises(InputError) as error:
            policies.load(f"hf:{tmp_path / path}", None, PolicyConfig())
        assert "\n" not in str(error.value)
        assert path in str(error.value)


def test_no_such_device(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for device in ("cuda:99", "abacus"):
        with pytest.raises(InputError, match=f"--device: '{device}'"):
            policies.load(f"hf:{tmp_path}", None, PolicyConfig(device=device))


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_a_model_gone_wrong_says_so(model: Any, tokenizer: Any, make_turn: Make, mode: str) -> None:
    broken = copy.deepcopy(model)
    broken.lm_head.weight.data[:] = torch.nan
    with pytest.raises(WorldlineError, match="output is NaN"):
        hf.from_model(broken, tokenizer, PolicyConfig(mode=mode)).act([make_turn()])


def test_a_response_longer_than_the_context_is_refused(model: Any, tokenizer: Any) -> None:
    with pytest.raises(InputError, match="--max-new-tokens"):
        hf.from_model(model, tokenizer, PolicyConfig(max_new_tokens=1020))


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_no_turns_no_decisions(model: Any, tokenizer: Any, mode: str) -> None:
    policy = hf.from_model(model, tokenizer, PolicyConfig(mode=mode))
    assert policy.act([]) == []
    assert policy.logprobs([], []) == []
