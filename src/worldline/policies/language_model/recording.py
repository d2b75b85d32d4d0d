"""Work whose tensors stay in place, recorded once as a CUDA graph and replayed from then on.

A step of a small model on a GPU is mostly Python that launches kernels; a replay launches them all at once. On any other
device the work simply runs, so that what is recorded can be tested without a GPU.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Work = Callable[[], None]


class Recorder:
    """Records work on one device; all recordings share the memory of what they compute on the way."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def recorded(self, work: Work) -> Work:
        """`work`, which takes and gives its tensors in place: the first call runs, the second records, the rest replay.

        Work that synchronises cannot be recorded, and keeps running as it is.
        """
        return work if self._pool is None else _Recording(work, self._device, self._pool)


class _Recording:
    def __init__(self, work: Work, device: torch.device, pool: tuple[int, int]) -> None:
        self._work, self._device, self._pool = work, device, pool
        self._runs, self._graph = 0, torch.cuda.CUDAGraph()
        self._recordable = True

    def __call__(self) -> None:
        self._runs += 1
        if self._runs == 2:
            self._record()
        if self._runs >= 2 and self._recordable:
            self._graph.replay()
        else:
            self._work()

    def _record(self) -> None:
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # torch gives it no types
        try:
            with (
                torch.cuda.device(self._device),
                torch.cuda.graph(self._graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"),
            ):
                self._work()
        except RuntimeError:
            self._recordable = False


class Countdown:
    """Whether a count on the device has come to zero, seen one step late: so the device never waits for the host."""

    def __init__(self, count: Tensor) -> None:
        self._count, self._looks = count, 0
        on_gpu = count.device.type == "cuda"
        self._seen = [torch.ones_like(count, device="cpu").pin_memory() if on_gpu else torch.ones_like(count)
                      for _ in range(2)]  # packed lines read better  # fmt: skip
        self._copied = [torch.cuda.Event() for _ in self._seen] if on_gpu else []  # type: ignore[no-untyped-call]

    def over(self) -> bool:
        """Look once more; the answer is that of the look before."""
        now, before = self._looks % 2, (self._looks + 1) % 2
        self._seen[now].copy_(self._count, non_blocking=True)
        if self._copied:
            self._copied[now].record()
            self._copied[before].synchronize()
        self._looks += 1
        return self._looks > 1 and int(self._seen[before]) == 0
