"""Rollouts by a stock `vllm serve`: it gets the learner's weights after every update, and plays.

LoRA adapters go there as files (`adapters.py`), all weights by vLLM's weight transfer (`weight_transfer.py`). A server
that goes away is waited for; one that comes back without the present weights gets them again.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from accelerate.utils import broadcast_object_list

from worldline.config import Config, option
from worldline.paw.adapters import Adapters
from worldline.paw.model import Learner
from worldline.paw.weight_transfer import FullWeights, transport
from worldline.policies import PolicyConfig
from worldline.policies.client import RefusedError
from worldline.policies.language_model.completions import CompletionServer, UnavailableError
from worldline.policies.language_model.served import ServedPolicy, from_server
from worldline.policies.prompts import Counts
from worldline.post import public
from worldline.types import Decision, InputError, Turn, WorldlineError

_PAUSE = 1.0


class ServerConfig(Config):
    """Rollouts by a `vllm serve` instead of this process."""

    url: str = option("", help="where vllm serve answers, e.g. http://localhost:8000/v1; default: play in this process")
    weights: Literal["lora", "nccl", "ipc"] = option(
        "lora",
        help="what the server is sent after every update: LoRA adapters (needs --learner.lora), or all weights, from "
        "GPU to GPU (nccl) or within one (ipc)",
    )
    model: str = option("", help="nccl, ipc: what the server calls its model; default: --model")
    workers: int = option(1, help="nccl: GPUs of the server, over all its parallel sizes", ge=1)
    wait: float = option(300.0, help="seconds to wait for a server that does not answer", ge=0)
    max_staleness: int = option(
        0, help="updates that the playing weights may be behind, where the server does not take newer ones", ge=0
    )
    cap: float = option(
        2.0, help="truncated importance sampling: largest weight learner / sampler of a token; 0: no correction", ge=0
    )


class Carrier(Protocol):
    """A way of the learner's weights to the server; `Adapters` says what its methods do."""

    whole: bool

    def name(self, update: int) -> str: ...

    def prepare(self, update: int, *, first: bool) -> None: ...

    def deliver(self, update: int, settings: PolicyConfig) -> None: ...

    def lose(self) -> None: ...

    def remedy(self, update: int) -> str: ...

    def forget(self, before: int, present: int, settings: PolicyConfig) -> None: ...


def carrier(
    config: ServerConfig, learner: Learner, folder: Path, settings: PolicyConfig, model: str, accelerator: Any
) -> Carrier:
    """How the weights get to the server; InputError where they cannot."""
    if config.weights == "lora":
        if not learner.adapted:
            raise InputError(
                "--server.url: needs --learner.lora RANK, or --server.weights nccl or ipc, which send all weights"
            )
        return Adapters(config.url, learner, folder)
    if accelerator.num_processes > 1:
        raise InputError(f"--server.weights {config.weights}: only one training process can send: launch one")
    way = transport(config.weights, accelerator.device)
    dtype = getattr(torch, settings.dtype)
    return FullWeights(config.url, config.model or model, learner, dtype, way, config.workers)


class RolloutServer:
    """The server with the weights of one update. Call `refresh` before the first rollout and after every update."""

    def __init__(
        self,
        config: ServerConfig,
        learner: Learner,
        folder: Path,
        settings: PolicyConfig,
        model: str,
        accelerator: Any,
    ) -> None:
        if public(config.url) != config.url:
            raise InputError("--server.url: without user, password and query, please: a key goes into OPENAI_API_KEY")
        self.version = -1
        """The update whose weights the server plays with; -1: it has none yet."""
        self._refusal = ""
        self._config = config
        self._learner = learner
        self._settings = settings
        self._carrier = carrier(config, learner, folder, settings, model, accelerator)

    def refresh(self, update: int, accelerator: Any) -> None:
        """Play with the learner's present weights from now on.

        Where the server does not take them, the old ones stay; `policy` raises once these are too old.
        """
        # One process sends, and all go on as it went there.
        refusal = broadcast_object_list([self._send(update) if accelerator.is_main_process else ""])[0]
        if refusal:
            stale = self.version < 0 or update - self.version > self._config.max_staleness
            if stale or not self._carrier.whole:
                self._refusal = refusal
            return
        before, self.version = self.version, update
        if accelerator.is_main_process:
            self._carrier.forget(before, update, self._settings)

    def policy(self, tokenizer: Any, settings: PolicyConfig, name: str) -> "PatientPolicy":
        """The policy of the weights that are being served."""
        if self._refusal:
            raise WorldlineError(self._refusal)
        server = CompletionServer(self._carrier.name(self.version), self._config.url, settings)
        return PatientPolicy(from_server(server, self._learner.plain, tokenizer, settings, name), self)

    def deadline(self) -> float:
        return time.monotonic() + self._config.wait

    def recover(self, deadline: float) -> None:
        """Wait until the server answers again, and plays with the weights it should."""
        self._carrier.lose()
        self._load(self.version, deadline)

    def _send(self, update: int) -> str:
        """Why the server does not take the learner's present weights; nothing where it does."""
        self._carrier.prepare(update, first=self.version < 0)
        try:
            self._load(update, self.deadline())
        except WorldlineError as error:
            return str(error)
        return ""

    def _load(self, update: int, deadline: float) -> None:
        impatient = self._settings.model_copy(update={"api_retries": 0})
        while True:
            try:
                return self._carrier.deliver(update, impatient)
            except RefusedError as refused:
                raise WorldlineError(str(refused)) from None
            except UnavailableError as error:
                if error.status == 404:
                    raise WorldlineError(f"{error}: {self._carrier.remedy(update)}") from None
                if time.monotonic() >= deadline:
                    raise WorldlineError(
                        f"{error}; waited {self._config.wait:g} s (--server.wait). Checkpoints are whole: start the "
                        "server and go on with --resume"
                    ) from None
            time.sleep(_PAUSE)


class PatientPolicy:
    """A served policy that outlives its server for as long as `ServerConfig.wait` says."""

    def __init__(self, policy: ServedPolicy, server: RolloutServer) -> None:
        self.name, self.encoder = policy.name, policy.encoder
        self._policy, self._server = policy, server

    @property
    def counts(self) -> Counts:
        return self._policy.counts

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        deadline: float | None = None
        while True:
            try:
                return self._policy.act(turns)
            except UnavailableError as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise WorldlineError(f"{error}. Checkpoints are whole: go on with --resume") from None
                deadline = deadline or self._server.deadline()
                self._server.recover(deadline)
