"""Rollouts by a stock `vllm serve`: it gets the learner's LoRA adapter after every update, and plays.

Adapters are a hundredth of the weights: each is written into the run folder, which the server must see under the same
path, and loaded under a name of its own. Full weights would take vLLM's weight transfer between GPUs (NCCL, CUDA IPC),
which is not here. A server that goes away is waited for; one that comes back without its adapters gets the present one
again. Adapters stay on disk only as long as the server may need them.
"""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from worldline import files
from worldline.config import Config, option
from worldline.paw.model import Learner, quiet
from worldline.policies import PolicyConfig
from worldline.policies.client import RefusedError
from worldline.policies.language_model.completions import CompletionServer, UnavailableError
from worldline.policies.language_model.served import ServedPolicy, from_server
from worldline.policies.prompts import Counts
from worldline.post import public
from worldline.types import Decision, InputError, Turn, WorldlineError

_PAUSE = 1.0


class ServerConfig(Config):
    """Rollouts by a `vllm serve` instead of this process. Needs --learner.lora."""

    url: str = option("", help="where vllm serve answers, e.g. http://localhost:8000/v1; default: play in this process")
    wait: float = option(300.0, help="seconds to wait for a server that does not answer", ge=0)
    max_staleness: int = option(
        0, help="updates that the playing weights may be behind, where the server does not take newer ones", ge=0
    )
    cap: float = option(
        2.0, help="truncated importance sampling: largest weight learner / sampler of a token; 0: no correction", ge=0
    )


class RolloutServer:
    """The server with the adapter of one update. Call `refresh` before the first rollout and after every update."""

    def __init__(self, config: ServerConfig, learner: Learner, folder: Path, settings: PolicyConfig) -> None:
        if not learner.adapted:
            raise InputError("--server.url: needs --learner.lora RANK: the server is sent adapters, not full weights")
        if public(config.url) != config.url:
            raise InputError("--server.url: without user, password and query, please: a key goes into OPENAI_API_KEY")
        self.version = -1
        """The update whose weights the server plays with; -1: it has none yet."""
        self._refusal = ""
        self._config = config
        self._learner = learner
        self._folder = folder.absolute() / "adapters"
        self._settings = settings
        # The server's prefix cache goes by names: one of an earlier process must not come back with other weights.
        self._run = broadcast_object_list([secrets.token_hex(4)])[0]

    def refresh(self, update: int, accelerator: Any) -> None:
        """Play with the learner's present weights from now on.

        Where the server does not take them, the old ones stay; `policy` raises once these are too old.
        """
        # One process sends, and all go on as it went there.
        refusal = broadcast_object_list([self._send(update) if accelerator.is_main_process else ""])[0]
        if refusal:
            if self.version < 0 or update - self.version > self._config.max_staleness:
                self._refusal = refusal
            return
        before, self.version = self.version, update
        if accelerator.is_main_process:
            self._forget(before)

    def policy(self, tokenizer: Any, settings: PolicyConfig, name: str) -> "PatientPolicy":
        """The policy of the adapter that is being served."""
        if self._refusal:
            raise WorldlineError(self._refusal)
        server = CompletionServer(self._name(self.version), self._config.url, settings)
        return PatientPolicy(from_server(server, self._learner.plain, tokenizer, settings, name), self)

    def deadline(self) -> float:
        return time.monotonic() + self._config.wait

    def recover(self, deadline: float) -> None:
        """Wait until the server answers again, and serves the adapter."""
        self._load(self.version, deadline)

    def _send(self, update: int) -> str:
        """Why the server does not take the learner's present weights; nothing where it does."""
        if self.version < 0:
            files.delete(self._folder)  # what a run that was killed left behind
        with files.replacing(self._folder / self._name(update)) as partial, quiet():
            self._learner.lm.save_pretrained(partial, save_embedding_layers=False)
        try:
            self._load(update, self.deadline())
        except WorldlineError as error:
            return str(error)
        return ""

    def _load(self, update: int, deadline: float) -> None:
        impatient = self._settings.model_copy(update={"api_retries": 0})
        server = CompletionServer("", self._config.url, impatient)
        path = self._folder / self._name(update)
        while True:
            try:
                return server.load_adapter(self._name(update), str(path))
            except RefusedError as refused:
                if "already been loaded" in str(refused):  # by another process of this run
                    return None
                raise WorldlineError(str(refused)) from None
            except UnavailableError as error:
                if error.status == 404:
                    raise WorldlineError(
                        f"{error}: start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora, where it can "
                        f"read {path}"
                    ) from None
                if time.monotonic() >= deadline:
                    raise WorldlineError(
                        f"{error}; waited {self._config.wait:g} s (--server.wait). Checkpoints are whole: start the "
                        "server and go on with --resume"
                    ) from None
            time.sleep(_PAUSE)

    def _forget(self, update: int) -> None:
        """The adapter of `update` is no longer needed, nor is any that the server refused."""
        for folder in self._folder.iterdir():
            if folder.name != self._name(self.version):
                files.delete(folder)
        if update < 0:
            return
        with suppress(RefusedError, WorldlineError):  # a server that was started again never had it
            CompletionServer("", self._config.url, self._settings).unload_adapter(self._name(update))

    def _name(self, update: int) -> str:
        return f"worldline-{self._run}-update-{update:06d}"


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
