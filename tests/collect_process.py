"""`worldline collect` as a process of its own, to be killed, stopped or run beside another."""

import subprocess
import sys
from pathlib import Path


def start_collect(out: Path, *words: str) -> subprocess.Popen[bytes]:
    """Chance plays the tiny household; `words` say how many episodes, and how."""
    task = "household --policy random --options.level tiny --max-steps 20 --out".split()
    command = [sys.executable, "-m", "worldline", "collect", *task, str(out), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
