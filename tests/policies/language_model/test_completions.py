"""What is sent to a `vllm serve`, and what is made of its answers, good and bad."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from completions_server import CompletionsServer
from hypothesis import given, settings
from hypothesis import strategies as st
from served_equality import QUICK, save_model

from worldline.policies import PolicyConfig
from worldline.policies.client import RefusedError
from worldline.policies.language_model.completions import CompletionServer, UnavailableError, read_answer
from worldline.types import InputError


@pytest.fixture(scope="module")
def served(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompletionsServer]:
    with CompletionsServer(save_model(tmp_path_factory.mktemp("served"), tokenizer)) as server:
        yield server


def client(served: CompletionsServer) -> CompletionServer:
    return CompletionServer(str(served.folder), served.url, PolicyConfig(**QUICK))


def choice(index: int, ids: list[int], tops: list[dict[str, float]]) -> dict[str, Any]:
    values = [top[f"token_id:{token}"] for token, top in zip(ids, tops, strict=True)]
    return {"index": index, "text": "", "token_ids": ids, "logprobs": {"token_logprobs": values, "top_logprobs": tops}}


def test_what_is_sent(served: CompletionsServer) -> None:
    served.requests.clear()
    client(served).sample([5, 6], seed=2**40 + 7, stops=[1, 2], longest=3, temperature=0.5, top=4)
    path, body = served.requests[0]
    assert path == "/v1/completions"
    assert (body["prompt"], body["seed"], body["max_tokens"], body["temperature"]) == ([5, 6], 7, 3, 0.5)
    assert (body["stop_token_ids"], body["logprobs"], body["return_token_ids"]) == ([1, 2], 4, True)
    # what a generation config of the server's may say is overruled
    assert (body["top_p"], body["top_k"], body["repetition_penalty"], body["ignore_eos"]) == (1.0, -1, 1.0, True)


def test_answers_come_in_the_order_of_the_prompts() -> None:
    tops = [{"token_id:3": -0.5, "token_id:9": -9999.0}]
    answer = {"choices": [choice(1, [3], tops), choice(0, [9], tops)]}
    first, second = read_answer(json.dumps(answer).encode(), 2)
    assert (first.ids, second.ids) == ([9], [3])
    assert first.logprobs == [-float("inf")]
    assert second.tops == [{3: -0.5, 9: -float("inf")}]


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"index": 0, "text": "up", "logprobs": None}]},
        {"choices": [{"message": {"content": "up"}}]},
        {"choices": [choice(0, [3], [{"token_id:3": -1.0}]) | {"token_ids": None}]},
        {"choices": [choice(0, [3], [{"token_id:3": -1.0}]) | {"token_ids": [3, 4]}]},
        {"choices": [choice(0, [], [])]},
        {"choices": []},
        [],
    ],
)
def test_other_answers_are_refused(answer: Any) -> None:
    with pytest.raises(RefusedError):
        read_answer(json.dumps(answer).encode(), 1)


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RefusedError):
        read_answer(data, 1)


def test_a_server_that_knows_no_named_tokens(served: CompletionsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "wished", lambda shown, token, body: [token])
    with pytest.raises(InputError, match="logprob_token_ids"):
        client(served).following([[5]], 1.0, named=[7, 8, 9])


def test_adapters_that_are_not_there(served: CompletionsServer, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="No adapter found") as caught:
        client(served).load_adapter("mine", str(tmp_path))
    assert caught.value.status == 404
    with pytest.raises(UnavailableError, match="'mine' cannot be found"):
        client(served).unload_adapter("mine")
