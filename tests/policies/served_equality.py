"""What `vllm:` must have in common with `hf:` for the same weights, whoever the server is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_llama import tiny_llama
from worldline import policies
from worldline.policies import PolicyConfig
from worldline.types import Turn

QUICK = {"device": "cpu", "max_new_tokens": 6, "api_retries": 0}


def save_model(folder: Path, tokenizer: Any) -> Path:
    """A random Llama with heads of 32, the smallest that vLLM's CPU attention takes."""
    options = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
    model = tiny_llama(tokenizer, 64, intermediate_size=64, initializer_range=0.3, **options).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def pair(folder: Path, url: str, **settings: Any) -> tuple[Any, Any]:
    """The checkpoint in `folder` as a local policy, and as a served one."""
    config = PolicyConfig(**(QUICK | settings))
    return policies.load(f"hf:{folder}", None, config), policies.load(f"vllm:{folder}@{url}", None, config)


def assert_equal(folder: Path, url: str, turns: Sequence[Turn], mode: str, temperature: float) -> None:
    """Scores of given actions, what is chosen or greedily generated, and what the served policy says of its samples."""
    local, served = pair(folder, url, mode=mode, temperature=temperature, top_logprobs=-1)
    actions = [(*(turn.admissible or ()), "go to mars") for turn in turns]
    ours, theirs = (np.concatenate(policy.logprobs(turns, actions)) for policy in (local, served))
    assert np.array_equal(np.isinf(ours), np.isinf(theirs))
    finite = np.isfinite(ours)
    assert ours[finite] == pytest.approx(theirs[finite], abs=1e-3)
    decisions, expected = served.act(turns), local.act(turns)
    if mode == "choose" or temperature == 0:
        assert [d.token_ids for d in decisions] == [d.token_ids for d in expected]
    for turn, theirs_, ours_ in zip(turns, decisions, expected, strict=True):
        if theirs_.token_ids == ours_.token_ids:
            assert theirs_.action == ours_.action
            assert theirs_.response == ours_.response
            assert theirs_.logprob == pytest.approx(ours_.logprob, abs=1e-3)
            assert theirs_.token_logprobs == pytest.approx(ours_.token_logprobs, abs=1e-3)
            assert theirs_.entropy == pytest.approx(ours_.entropy, abs=1e-3)
        if mode == "generate":  # the same tokens, scored by the local model
            own = forced_logprobs(local, turn, theirs_.token_ids, temperature)
            assert theirs_.token_logprobs == pytest.approx(own, abs=1e-3)


def forced_logprobs(policy: Any, turn: Turn, ids: Sequence[int], temperature: float) -> list[float]:
    """The log-prob of each of the tokens `ids` under a local model, by one plain forward pass."""
    import torch

    prompt = policy.encoder.prompt(turn)
    with torch.inference_mode():
        logits = policy.model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float()
    if temperature == 0:
        return [0.0 if int(row.argmax()) == token else -np.inf for row, token in zip(logits, ids, strict=True)]
    rows = (logits / temperature).log_softmax(-1)
    return [float(row[token]) for row, token in zip(rows, ids, strict=True)]
