"""`auto` is the GPU if there is one; a device that torch cannot use is named in one line."""

import pytest
import torch

from worldline.policies.language_model.device import usable_device
from worldline.types import InputError


def test_auto_takes_the_gpu_if_there_is_one() -> None:
    assert usable_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert usable_device("cpu") == "cpu"


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_an_unusable_device_is_bad_input(device: str) -> None:
    with pytest.raises(InputError, match=rf"--device: '{device}' cannot be used: .+") as error:
        usable_device(device)
    assert "\n" not in str(error.value)
