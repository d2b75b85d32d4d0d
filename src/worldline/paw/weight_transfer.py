"""All weights on their way to a `vllm serve`, by vLLM's own weight-transfer protocol (as 0.32 has it).

HTTP steers: pause, start, update, finish, resume; the numbers go from GPU to GPU. `nccl`: the server is on GPUs of its
own; this process is rank 0 of a group with the server's workers, whose id it sends them. `ipc`: the server shares this
process's GPU, and gets handles of the memory where the weights lie. Neither needs vLLM in this environment. Only one
training process can send.
"""

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]  # exported where it is built
from torch.multiprocessing.reductions import reduce_tensor

from worldline.paw.actor import plain_weights
from worldline.paw.model import Learner
from worldline.policies import PolicyConfig
from worldline.policies.client import RefusedError
from worldline.policies.language_model.completions import CompletionServer
from worldline.types import InputError, WorldlineError

SendRequest = Callable[[dict[str, Any]], None]
"""Sends the server one request with this information, and returns when the server has carried it out."""


LONGEST = 600.0
"""Seconds that one request may take: `/update_weights` answers when all weights are there."""


class Transport(Protocol):
    """How the numbers get to the server."""

    def open(self, workers: int, join: SendRequest) -> None:
        """Connect with the server's `workers`; `join` makes them do their part."""

    def send(self, weights: Sequence[tuple[str, Tensor]], receive: SendRequest) -> None:
        """Send the weights, by name; `receive` makes the workers take them."""

    def close(self) -> None: ...


class CudaIpc:
    """Handles of this GPU's memory, for a server on the same GPU. It must be started to unpickle them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def open(self, workers: int, join: SendRequest) -> None:
        join({"packed": False})

    def send(self, weights: Sequence[tuple[str, Tensor]], receive: SendRequest) -> None:
        gpu = str(torch.cuda.get_device_properties(self._device).uuid)
        handles = [{gpu: reduce_tensor(weight)[1]} for _, weight in weights]  # type: ignore[no-untyped-call]  # torch gives it no types
        receive(_described(weights) | {"ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode()})

    def close(self) -> None: ...


class Nccl:
    """Broadcasts from this process, rank 0, to the server's workers."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._group: Any = None

    def open(self, workers: int, join: SendRequest) -> None:
        from torch.distributed import ProcessGroupNCCL  # builds for CPUs have none

        store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60), wait_for_workers=False)
        self._group = ProcessGroupNCCL(store, 0, 1 + workers, ProcessGroupNCCL.Options())
        with ThreadPoolExecutor(1) as beside:
            # The workers begin with a sum over one number, so this side does. It makes the id, and waits for them.
            meeting = beside.submit(lambda: self._group.allreduce([torch.zeros(1, device=self._device)]).wait())
            try:
                group_id = base64.b64encode(store.get("0")).decode()  # where torch puts a group's first id
                join({"nccl_unique_id_b64": group_id, "rank_offset": 1, "world_size": 1 + workers, "packed": False})
            except BaseException:
                self.close()  # or the sum would wait for ever
                raise
            meeting.result()

    def send(self, weights: Sequence[tuple[str, Tensor]], receive: SendRequest) -> None:
        with ThreadPoolExecutor(1) as beside:
            receiving = beside.submit(receive, _described(weights))
            sent = [self._group.broadcast(weight, 0) for _, weight in weights]  # put on the GPU's queue, and no more
            try:
                receiving.result()
            except BaseException:
                self.close()
                raise
            for work in sent:
                work.wait()
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)

    def close(self) -> None:
        if self._group is not None:
            self._group.abort()
            self._group = None


def transport(kind: Literal["nccl", "ipc"], device: torch.device) -> Transport:
    """The transport of that name from `device`; InputError where it is no GPU."""
    if device.type != "cuda":
        raise InputError(f"--server.weights {kind}: weights go from GPU to GPU, and this run is on {device.type}")
    return Nccl(device) if kind == "nccl" else CudaIpc(device)


class FullWeights:
    """Carries all of the learner's weights, adapters folded in, to the server at `url`; it calls its model `model`."""

    def __init__(
        self, url: str, model: str, learner: Learner, dtype: torch.dtype, transport: Transport, workers: int
    ) -> None:
        self._root, self._model = url.rstrip("/").removesuffix("/v1"), model
        self._learner, self._dtype = learner, dtype
        self._transport, self._workers, self._open = transport, workers, False
        self.whole = True
        """Whether what the server plays with are one update's weights: not where a transfer broke off."""

    def name(self, update: int) -> str:
        return self._model

    def prepare(self, update: int, *, first: bool) -> None:
        """Nothing: weights are read when they are sent, and change in updates only."""

    def deliver(self, update: int, settings: PolicyConfig) -> None:
        """Make the server play with the present weights. RefusedError or UnavailableError where it does not."""
        patient = settings.model_copy(update={"api_timeout": max(settings.api_timeout, LONGEST)})
        server = CompletionServer("", self._root, patient)
        server.control("/pause?mode=wait")  # which also forgets what was cached with the old weights
        try:
            if not self._open:
                self._transport.open(
                    self._workers, lambda info: server.control("/init_weight_transfer_engine", {"init_info": info})
                )
                self._open = True
            server.control("/start_weight_update")
            self.whole = False
            weights = list(self._weights())  # kept until the server has finished with them
            self._transport.send(weights, lambda info: server.control("/update_weights", {"update_info": info}))
            server.control("/finish_weight_update", {"weight_version": f"update-{update:06d}"})
            self.whole = True
        except BaseException as error:
            self.lose()
            if self.whole:  # it may play on with the weights it has
                with suppress(RefusedError, WorldlineError):
                    server.control("/resume")
            if isinstance(error, DistError):  # torch's, of a group that does not meet or loses a member
                reason = str(error).partition("\n")[0]
                raise WorldlineError(
                    f"{server.name}: the weights of update {update} did not get there: {reason}"
                ) from None
            raise
        server.control("/resume")

    def lose(self) -> None:
        """The server that comes next may be another one: connect anew."""
        self._transport.close()
        self._open = False

    def remedy(self, update: int) -> str:
        return "start it with VLLM_SERVER_DEV_MODE=1 and --weight-transfer-config, as docs/vllm.md has it"

    def forget(self, before: int, present: int, settings: PolicyConfig) -> None:
        """Nothing is left behind."""

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        with torch.no_grad():
            for name, weight in plain_weights(self._learner):
                yield name, weight.detach().to(self._dtype).contiguous()


def _described(weights: Sequence[tuple[str, Tensor]]) -> dict[str, Any]:
    return {
        "names": [name for name, _ in weights],
        "dtype_names": [str(weight.dtype).removeprefix("torch.") for _, weight in weights],
        "shapes": [list(weight.shape) for _, weight in weights],
    }
