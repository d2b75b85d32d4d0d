"""Where worldline keeps what it can make again: `$WORLDLINE_CACHE`, else `worldline` in the user's cache folder (XDG).

Nothing in it is a result: it may be deleted at any time, and is then made anew.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path


def cache_root() -> Path:
    """The folder of all caches; it need not be there yet."""
    if own := os.environ.get("WORLDLINE_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification: a path that is not absolute is to be ignored
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "worldline"


def cache_of(kind: str, sources: Sequence[Path]) -> Path:
    """The folder of what is made from these files: the same files at the same place, the same folder."""
    places = "\0".join(str(source.resolve()) for source in sources)
    digest = hashlib.blake2b(places.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return cache_root() / kind / f"{sources[0].name}-{digest}"
