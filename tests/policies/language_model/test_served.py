"""`vllm:` against `hf:` for the same weights, through a server on transformers that speaks vLLM's HTTP.

`test_vllm.py` asks the same of vLLM itself where it is installed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from completions_server import CompletionsServer
from hypothesis import given, settings
from hypothesis import strategies as st
from served_equality import QUICK, assert_equal, pair, save_model

import worldline
from counting import CountingWorld
from worldline import policies, store
from worldline.policies import PolicyConfig, public_name
from worldline.policies.language_model import served
from worldline.policies.language_model.completions import UnavailableError
from worldline.policies.language_model.served import TOLERANCE, entropy_bounds
from worldline.policies.mixing import mix
from worldline.rollout import Rollout, plan
from worldline.types import InputError, ScoringPolicy, Turn, WorldlineError

Make = Callable[..., Turn]


@pytest.fixture(scope="module")
def folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("served"), tokenizer)


@pytest.fixture
def server(folder: Path) -> Iterator[CompletionsServer]:
    with CompletionsServer(folder, max_logprobs=-1) as server:
        yield server


def load(server: CompletionsServer, **settings: Any) -> Any:
    return policies.load(f"vllm:{server.folder}@{server.url}", None, PolicyConfig(**(QUICK | settings)))


@pytest.mark.parametrize(
    ("mode", "temperature"), [("generate", 0.0), ("generate", 0.5), ("generate", 1.0), ("choose", 0.0), ("choose", 0.5)]
)
def test_equals_hf(server: CompletionsServer, make_turn: Make, mode: str, temperature: float) -> None:
    turns = [make_turn(steps=steps, seed=seed) for steps, seed in ((0, 1), (2, 2))]
    assert_equal(server.folder, server.url, turns, mode, temperature)


def test_every_estimator_agrees_on_one_log(server: CompletionsServer, tmp_path: Path) -> None:
    world = CountingWorld()
    with store.StoreWriter(tmp_path / "log") as writer:
        for trajectory in Rollout(world, policies.load("random"), max_steps=3).play(
            plan(world, "train", 15, seed=1, run="r")
        ):
            writer.append(trajectory)
    entries = [f"local=hf:{server.folder}", f"served=vllm:{server.folder}@{server.url}"]
    settings: dict[str, Any] = {"mode": "choose", "device": "cpu", "certificate": False, "bootstrap": 100}
    result = worldline.evaluate(log=[tmp_path / "log"], policy=entries, epsilon=[0.0, 0.3], **settings)
    for epsilon in (0.0, 0.3):
        values = {p.name: p.estimates for p in result.policies if p.epsilon == epsilon}
        assert values["local"].keys() == values["served"].keys() >= {"is", "wis", "dr", "magic", "lfqe"}
        for name, estimate in values["local"].items():
            assert values["served"][name].value == pytest.approx(estimate.value, abs=0.005), name


@pytest.mark.parametrize(("most", "expected"), [(None, 24), (3, 3)])
def test_all_waiting_turns_are_asked_for_at_once(
    server: CompletionsServer, make_turn: Make, most: int | None, expected: int
) -> None:
    policy = load(server, api_concurrency=most, max_new_tokens=2)
    policy.act([make_turn()])
    server.expects, server.most_at_once = expected, 0
    decisions = policy.act([make_turn(seed=seed) for seed in range(24)])
    assert server.most_at_once == expected
    assert len({decision.token_ids for decision in decisions}) > 12  # each with its own seed


def test_a_sample_follows_from_the_turns_seed(server: CompletionsServer, make_turn: Make) -> None:
    turns = [make_turn(seed=seed) for seed in range(6)]
    policy = load(server)
    assert policy.act(turns) == policy.act(turns)


def test_repeated_questions_are_asked_once_and_many_actions_in_parts(
    server: CompletionsServer, make_turn: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "MOST_NAMED", 2)
    monkeypatch.setattr(served, "_MOST_PREFIXES", 3)
    local, policy = pair(server.folder, server.url)
    turn = make_turn(steps=0)
    actions = ["look", "go", "inventory", "open fridge 1", "a", "b", "c", "d"]
    policy.logprobs([turn], [["look"]])
    server.requests.clear()
    ours = local.logprobs([turn], [actions])[0]
    theirs = policy.logprobs([turn, turn], [actions, actions[::-1]])
    assert theirs[0] == pytest.approx(ours, abs=1e-3)
    assert np.array_equal(theirs[0], theirs[1][::-1])
    bodies = [body for _, body in server.requests]
    assert max(len(body["logprob_token_ids"]) for body in bodies) == 2
    assert max(len(body["prompt"]) for body in bodies) == 3
    questions = [(tuple(prompt), *body["logprob_token_ids"]) for body in bodies for prompt in body["prompt"]]
    assert len(questions) == len(set(questions))


def test_mixing_gives_exact_log_probs(server: CompletionsServer, make_turn: Make) -> None:
    local, served = pair(server.folder, server.url, mode="choose")
    turns = [make_turn(seed=seed) for seed in range(8)]
    ours, theirs = (mix(policy, 0.4).act(turns) for policy in (local, served))
    assert [d.action for d in ours] == [d.action for d in theirs]
    assert [d.logprob for d in theirs] == pytest.approx([d.logprob for d in ours], abs=1e-3)


def test_entropies_are_kept_where_the_likeliest_tokens_pin_them_down(
    server: CompletionsServer, make_turn: Make
) -> None:
    turns = [make_turn(seed=seed, steps=0) for seed in range(4)]
    for temperature in (0.3, 1.0):
        exact = load(server, top_logprobs=-1, temperature=temperature).act(turns)
        bounded = load(server, top_logprobs=20, temperature=temperature).act(turns)
        assert [d.token_ids for d in exact] == [d.token_ids for d in bounded]
        pinned = [(a.entropy, b.entropy) for a, b in zip(exact, bounded, strict=True) if b.entropy is not None]
        assert all(abs(a - b) <= TOLERANCE / 2 + 1e-6 for a, b in pinned)
        assert all(decision.entropy is not None for decision in exact)
        assert bool(pinned) == (temperature == 0.3)  # so flat a distribution at 1 that twenty tokens say little
    assert load(server, top_logprobs=0).act(turns[:1])[0].entropy is None


@settings(deadline=None)
@given(st.lists(st.floats(-12, 0), min_size=2, max_size=30), st.integers(0, 30), st.integers(0, 29))
def test_entropy_bounds_hold(logits: list[float], top: int, sampled: int) -> None:
    """Against the entropy itself; the sampled token may be given too, likely or not."""
    p = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-p)
    given_ = list(dict.fromkeys([sampled % len(p), *order[:top].tolist()]))
    low, high = entropy_bounds(np.log(p[given_]).tolist(), min(top, len(p)), len(p))
    assert low - 1e-9 <= -(p * np.log(p)).sum() <= high + 1e-9


def test_log_probs_that_ignore_the_temperature_are_refused(folder: Path, make_turn: Make) -> None:
    with CompletionsServer(folder, mode="raw_logprobs") as server:
        assert load(server).act([make_turn()])[0].logprob is not None
        assert load(server, mode="choose", temperature=0.5).act([make_turn()])[0].logprob is not None
        with pytest.raises(InputError, match="ignore the temperature.*--logprobs-mode processed_logprobs"):
            load(server, temperature=0.5).act([make_turn()])
    with CompletionsServer(folder, mode="raw_logits") as server, pytest.raises(InputError, match="gives logits"):
        load(server).act([make_turn()])


def test_a_request_that_is_refused_costs_its_episode(server: CompletionsServer, make_turn: Make) -> None:
    server.context = 200
    long = make_turn(steps=40)
    policy = load(server)
    short, failed = policy.act([make_turn(steps=0), long])
    assert not short.failure
    assert "maximum context length is 200" in failed.failure
    assert policy.act([long])[0].failure
    with pytest.raises(WorldlineError, match="maximum context length"):
        load(server).act([long])
    with pytest.raises(WorldlineError, match="maximum context length"):
        policy.logprobs([long], [["look"]])


def test_a_server_that_is_gone_or_serves_another_model(server: CompletionsServer, make_turn: Make) -> None:
    other = policies.load(f"vllm:other@{server.url}", None, PolicyConfig(**QUICK, tokenizer=str(server.folder)))
    with pytest.raises(UnavailableError, match="The model `other` does not exist"):
        other.act([make_turn()])
    policy = load(server)
    server.stop()
    with pytest.raises(UnavailableError, match="cannot be reached"):
        policy.act([make_turn()])


def test_which_policies_score(server: CompletionsServer) -> None:
    assert isinstance(load(server), ScoringPolicy)
    assert not isinstance(load(server, prompt="react"), ScoringPolicy)
    assert isinstance(load(server, prompt="react", mode="choose"), ScoringPolicy)


def test_bad_specifications(folder: Path) -> None:
    for spec, words in (
        ("vllm:model", "write a served policy as vllm:MODEL@URL"),
        (f"vllm:{folder}@http://:99/v1", "vllm:MODEL@URL: the URL needs a host"),
        ("vllm:/no/such/model@http://localhost:1/v1", "no such folder"),
    ):
        with pytest.raises(InputError, match=words):
            policies.load(spec)
    assert public_name("vllm:m@http://user:secret@host/v1?key=1") == "vllm:m@http://host/v1"
