"""Work whose tensors stay in place, recorded once as a CUDA graph and replayed from then on.

A step of a small model on a GPU is mostly Python that launches kernels; a replay launches them all at once. On any
other device the work simply runs, so that what is recorded can be tested without a GPU.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Work = Callable[[], None]


class Recorder:
    """Makes recordings on one device; all of them share the memory of what they compute on the way."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        # Gradients remember the stream they were first computed on: a first run and its recording share one.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]  # torch gives it no types
        self._latest: torch.cuda.CUDAGraph | None = None

    def recording(self) -> "Recording":
        """A place for one piece of work."""
        return Recording(self, self._stream)

    def captured(self, work: Work, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        """A graph of the work. The latest is kept: torch takes no new graph into memory that has none left."""
        if self._latest is None:  # nor into memory whose first graph was not made
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            graph.capture_begin(pool=self._pool)
            try:
                work()
            except BaseException:
                with suppress(RuntimeError):  # what `work` raised says more
                    graph.capture_end()
                raise
            graph.capture_end()
        self._latest = graph
        return graph


class Recording:
    """One piece of work, which takes and gives its tensors in place: the first call runs it, the second records it.

    The work is given at every call and not kept: its owner keeps this, and large memory must not wait for the garbage
    collector to see that neither is needed. Work that synchronises cannot be recorded: it keeps running as it is, and a
    warning says so.
    """

    def __init__(self, recorder: Recorder, stream: torch.cuda.Stream | None) -> None:
        self._recorder, self._stream = recorder, stream
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> None:
        """Do the work; it must be the same at every call."""
        self._runs += 1
        if self._stream is None:
            work()
            return
        if self._runs == 2:
            self._graph = self._recorded(work, self._stream)
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run(work, self._stream)

    @property
    def recorded(self) -> bool:
        """Whether the next call replays."""
        return self._graph is not None

    def _run(self, work: Work, stream: torch.cuda.Stream) -> None:
        current = torch.cuda.current_stream(stream.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            work()
        current.wait_stream(stream)

    def _recorded(self, work: Work, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph | None:
        """`torch.cuda.graph` would wait for the device and give back all memory that is free, which an update then
        takes anew. Here that is done only where memory is short."""
        try:
            try:
                return self._recorder.captured(work, stream)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                return self._recorder.captured(work, stream)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            warnings.warn(f"work on the GPU is not recorded, and so slower: {reason}", RuntimeWarning, stacklevel=3)
            return None


def sent(values: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    """`values` on the device. The host does not wait for what the device has still to do before."""
    here = torch.from_numpy(values)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here


class Arriving:
    """Tensors as they are now, on their way to the host, which waits for them only when it looks."""

    def __init__(self, *tensors: Tensor) -> None:
        on_gpu = tensors[0].device.type == "cuda"
        self._copies = [torch.empty_like(tensor, device="cpu", pin_memory=on_gpu) for tensor in tensors]
        for copy, tensor in zip(self._copies, tensors, strict=True):
            copy.copy_(tensor, non_blocking=True)
        self._copied = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]  # torch gives it no types
        if self._copied:
            self._copied.record(torch.cuda.current_stream(tensors[0].device))

    def arrays(self) -> list[npt.NDArray[Any]]:
        if self._copied:
            self._copied.synchronize()
        return [copy.numpy() for copy in self._copies]
