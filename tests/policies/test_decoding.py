"""Reading on: steps with every tensor in its place say what steps with a growing cache say."""

import copy
from typing import Any

import pytest
import torch

from worldline.policies import attention, decoding
from worldline.policies.decoding import RecordedSteps, Steps, begin
from worldline.policies.forward import ROOM, read
from worldline.policies.generation import generate

PROMPTS = [[5, 9, 2, 7, 1, 3], [4, 8], [6, 1, 1, 2]]


@pytest.mark.parametrize("kind", ["sdpa", attention.NAME])
@pytest.mark.parametrize("most", [12, ROOM + 9])
def test_steps_in_place_say_the_same(model: Any, kind: str, most: int) -> None:
    model = copy.deepcopy(model)
    model.set_attn_implementation(kind)
    tokens = torch.randint(0, 40, (most, len(PROMPTS)), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        growing, placed = Steps(model, read(model, PROMPTS)), RecordedSteps(model, read(model, PROMPTS), most)
        rows = torch.arange(len(PROMPTS))
        for place, now in enumerate(tokens):
            if place == 5:
                rows = torch.tensor([2, 0])
                growing.keep(rows)
                placed.keep(rows)
            expected, found = growing.read(now[rows]), placed.read(now[rows])
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("patience", [0, 4, 99])
def test_a_response_does_not_depend_on_when_others_leave(model: Any, monkeypatch: Any, patience: int) -> None:
    wanted = {"stops": set(range(40)), "max_new_tokens": 16, "temperature": 1.0}
    with torch.inference_mode():
        alone = [generate(model, read(model, [prompt]), [at], **wanted)[0] for at, prompt in enumerate(PROMPTS)]
        monkeypatch.setattr(decoding.RecordedSteps, "patience", patience)
        monkeypatch.setattr("worldline.policies.generation.begin", RecordedSteps)
        together = generate(model, read(model, PROMPTS), [0, 1, 2], **wanted)
    assert len({len(response.ids) for response in alone}) > 1
    assert [response.ids for response in together] == [response.ids for response in alone]


def test_nothing_is_recorded_without_a_gpu(model: Any) -> None:
    assert type(begin(model, read(model, PROMPTS), 100)) is Steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records a CUDA graph: needs a GPU")
def test_replayed_steps_say_the_same(model: Any) -> None:
    model = copy.deepcopy(model).cuda()
    attention.prepare(model)
    with torch.inference_mode():
        growing, recorded = Steps(model, read(model, PROMPTS)), begin(model, read(model, PROMPTS), 20)
        assert type(recorded) is RecordedSteps
        for now in torch.randint(0, 40, (20, len(PROMPTS)), generator=torch.Generator().manual_seed(1)).cuda():
            torch.testing.assert_close(recorded.read(now), growing.read(now), rtol=1e-3, atol=1e-4)
