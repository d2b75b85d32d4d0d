"""Recorded work does what the work does; what is sent to the device or comes from it arrives."""

import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from worldline.policies.language_model.recording import Arriving, Recorder, sent

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="records a CUDA graph: needs a GPU")


def device(name: str) -> torch.device:
    return torch.device(name)


DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=needs_gpu)]


@pytest.mark.parametrize("name", DEVICES)
def test_recorded_work_runs_at_every_call_on_what_lies_in_place(name: str) -> None:
    total, step = torch.zeros(3, device=name), torch.ones(3, device=name)

    def work() -> None:
        total.add_(step)

    recording = Recorder(device(name)).recording()
    for call in range(1, 6):
        step.fill_(call)
        recording(work)
        assert total.tolist() == [sum(range(call + 1))] * 3


@pytest.mark.parametrize("name", DEVICES)
def test_work_that_looks_at_its_tensors_keeps_running(name: str) -> None:
    total = torch.zeros((), device=name)

    def work() -> None:
        total.add_(1 + 0 * total.item())

    recorder = Recorder(device(name))
    recording = recorder.recording()
    with pytest.warns(RuntimeWarning, match="not recorded") if name == "cuda" else nullcontext():
        for _ in range(4):
            recording(work)
    assert total.item() == 4
    assert not recording.recorded
    other = recorder.recording()

    def add() -> None:
        total.add_(1)

    for _ in range(3):
        other(add)
    assert total.item() == 7
    assert other.recorded == (name == "cuda")


@needs_gpu
def test_work_is_recorded_when_every_earlier_recording_is_gone() -> None:
    recorder, total = Recorder(device("cuda")), torch.zeros(1000, device="cuda")

    def work() -> None:
        total.add_(torch.ones_like(total).cumsum(0).sign())

    for _ in range(3):
        recording = recorder.recording()
        for _ in range(4):
            recording(work)
        assert recording.recorded
        del recording
    assert total.tolist() == [12.0] * 1000


@pytest.mark.parametrize("name", DEVICES)
def test_gradients_can_be_recorded(name: str) -> None:
    weight, given = torch.ones(4, device=name, requires_grad=True), torch.ones(4, device=name)
    weight.grad = torch.zeros_like(weight)

    def work() -> None:
        assert weight.grad is not None
        weight.grad.zero_()
        (weight * given).square().sum().backward()

    recording = Recorder(device(name)).recording()
    for value in (1.0, 2.0, 3.0, 4.0):
        given.fill_(value)
        recording(work)
        assert weight.grad is not None
        assert weight.grad.tolist() == [2 * value**2] * 4


@pytest.mark.parametrize("name", DEVICES)
def test_what_arrives_is_what_was_there(name: str) -> None:
    count, flags = torch.tensor([3, 4], device=name), torch.tensor([True], device=name)
    arriving = Arriving(count, flags)
    count -= 1
    assert [values.tolist() for values in arriving.arrays()] == [[3, 4], [True]]


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_sent_arrives(name: str) -> None:
    values = np.arange(5.0)
    assert sent(values, device(name)).tolist() == values.tolist()


def test_an_owner_of_a_recording_goes_when_it_is_let_go() -> None:
    """Its memory may be most of a GPU's: no cycle keeps it until the garbage is collected."""

    class Owner:
        def __init__(self) -> None:
            self.recording = Recorder(device("cpu")).recording()

        def work(self) -> None: ...

        def run(self) -> None:
            self.recording(self.work)

    owner = Owner()
    owner.run()
    seen = weakref.ref(owner)
    del owner
    assert seen() is None
