"""What resuming a training needs beside the weights: a file of torch's own format, read as data only, and a checksum.

torch checks nothing that it reads, so the file ends with a digest of what comes before.
"""

import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import IO, Any, cast

import torch

from worldline import files
from worldline.types import InputError

_SIZE = 16
_PIECE = 1 << 20


def save(path: Path, state: dict[str, Any]) -> None:
    """The state as a file, whole or not at all."""
    with files.writing(path) as file:
        checked = _Checked(file)
        try:
            torch.save(state, cast(IO[bytes], checked))
        except RuntimeError:
            if checked.error is None:
                raise
            raise checked.error from None
        file.write(checked.digest.digest())


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """The state in a file; InputError where it is not as it was saved, or no training state."""
    try:
        with path.open("rb") as file:
            whole = _is_whole(file)
        state = torch.load(path, map_location=device, weights_only=True) if whole else None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (RuntimeError, pickle.UnpicklingError):
        state = None
    if not isinstance(state, dict):
        problem = "not tensors and plain values" if whole else "cut short or corrupt"
        raise InputError(f"{path}: no training state to go on from: {problem}: --overwrite starts anew")
    return state


class _Checked(io.RawIOBase):
    """Passes on what is written and digests it; keeps the system's error, for which torch raises one of its own."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.blake2b(digest_size=_SIZE)
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise


def _is_whole(file: IO[bytes]) -> bool:
    left = file.seek(0, os.SEEK_END) - _SIZE
    file.seek(0)
    digest = hashlib.blake2b(digest_size=_SIZE)
    while left > 0:
        piece = file.read(min(left, _PIECE))
        digest.update(piece)
        left -= len(piece)
    return file.read() == digest.digest()
