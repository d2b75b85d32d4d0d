import pytest
import torch

from worldline.device import chosen_device


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert chosen_device("auto") == device
    assert chosen_device("cuda:1") == "cuda:1"
