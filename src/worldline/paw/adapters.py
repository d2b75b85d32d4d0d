"""LoRA adapters on their way to a `vllm serve`: written into the run folder, loaded under a name of their own.

Adapters are a hundredth of the weights. The server must see the run folder under the same path. An adapter stays on
disk only as long as the server may need it.
"""

import secrets
from contextlib import suppress
from pathlib import Path

from accelerate.utils import broadcast_object_list

from worldline import files
from worldline.paw.model import Learner, quiet
from worldline.policies import PolicyConfig
from worldline.policies.client import RefusedError
from worldline.policies.language_model.completions import CompletionServer
from worldline.types import WorldlineError


class Adapters:
    """Carries the learner's adapters to the server at `url`."""

    whole = True
    """What the server plays with is always one update's weights: an adapter is loaded or it is not."""

    def __init__(self, url: str, learner: Learner, folder: Path) -> None:
        self._url, self._learner, self._folder = url, learner, folder.absolute() / "adapters"
        # The server's prefix cache goes by names: one of an earlier process must not come back with other weights.
        self._run = broadcast_object_list([secrets.token_hex(4)])[0]

    def name(self, update: int) -> str:
        """What the server calls the model with the weights of `update`."""
        return f"worldline-{self._run}-update-{update:06d}"

    def prepare(self, update: int, *, first: bool) -> None:
        """Take the weights of `update` as they are now."""
        if first:
            files.delete(self._folder)  # what a run that was killed left behind
        with files.replacing(self._folder / self.name(update)) as partial, quiet():
            self._learner.lm.save_pretrained(partial, save_embedding_layers=False)

    def deliver(self, update: int, settings: PolicyConfig) -> None:
        """Make the server play with the weights of `update`. RefusedError or UnavailableError where it does not."""
        path = self._folder / self.name(update)
        try:
            CompletionServer("", self._url, settings).load_adapter(self.name(update), str(path))
        except RefusedError as refused:
            if "already been loaded" not in str(refused):  # by another process of this run
                raise

    def lose(self) -> None:
        """The server went away. Adapters need no connection."""

    def remedy(self, update: int) -> str:
        """What to do about a server that knows none of the requests."""
        path = self._folder / self.name(update)
        return f"start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora, where it can read {path}"

    def forget(self, before: int, present: int, settings: PolicyConfig) -> None:
        """Only the weights of update `present` are needed from now on; `before` (-1: none) were played with."""
        for folder in self._folder.iterdir():
            if folder.name != self.name(present):
                files.delete(folder)
        if before >= 0:
            with suppress(RefusedError, WorldlineError):  # a server that was started again never had it
                CompletionServer("", self._url, settings).unload_adapter(self.name(before))
