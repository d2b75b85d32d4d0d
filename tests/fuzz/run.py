"""Fuzz the readers for long: `make fuzz`, or `PYTHONPATH=tests python -m fuzz.run --mutants 50000 --reader NAME`.

Each reader has a process of its own. A mutant that raises anything but a WorldlineError, computes for over 5 s or
raises the peak memory by over 500 MB is a defect; its file is kept, named by reader and number.
"""

import argparse
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from fuzz.readers import READERS
from worldline.types import WorldlineError

SECONDS = 5.0
MEMORY = 500 << 20


def defects(name: str, numbers: range, kept: Path | None = None) -> Iterator[str]:
    """What is wrong with the reader, mutant by mutant."""
    reader = READERS[name]
    seeds = reader.seeds()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"mutant{reader.suffix}"
        for number in numbers:
            chance = Random(f"{name}-{number}")
            path.write_bytes(reader.mutant(chance.choice(seeds), chance))
            before, started = _memory("VmRSS"), time.process_time()
            _forget_peak()
            problem = ""
            try:
                reader.read(path)
            except WorldlineError as error:
                if "\n" in str(error) or not str(error):
                    problem = f"a message that is no line: {str(error)!r}"
            except Exception:
                problem = traceback.format_exc()
            seconds, grown = time.process_time() - started, _memory("VmHWM") - before
            if seconds > SECONDS:
                problem += f"took {seconds:.1f} s"
            if grown > MEMORY:
                problem += f"took {grown >> 20} MB"
            if problem:
                if kept is not None:
                    (kept / f"{name}-{number}{reader.suffix}").write_bytes(path.read_bytes())
                yield f"{name}-{number}: {problem}"


def _forget_peak() -> None:
    with suppress(OSError):  # not Linux
        Path("/proc/self/clear_refs").write_text("5")


def _memory(field: str) -> int:
    """Bytes, as Linux counts them; 0 elsewhere."""
    try:
        return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) << 10
    except OSError:
        return 0


def _fuzz(name: str, numbers: range, kept: Path) -> None:
    started, seen = time.perf_counter(), 0
    for problem in defects(name, numbers, kept):
        seen += 1
        print(problem, flush=True)
    seconds = time.perf_counter() - started
    print(f"{name}: {len(numbers)} mutants from {numbers.start}, {seen} defects, {seconds:.0f} s", flush=True)
    sys.exit(1 if seen else 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=50_000)
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant: a long run can be split")
    parser.add_argument("--reader", choices=list(READERS), action="append")
    parser.add_argument("--kept", type=Path, default=Path("fuzz-defects"), help="folder for the mutants with a defect")
    words = parser.parse_args()
    words.kept.mkdir(parents=True, exist_ok=True)
    numbers = range(words.start, words.start + words.mutants)
    failed = []
    for name in words.reader or READERS:
        process = multiprocessing.get_context("fork").Process(target=_fuzz, args=(name, numbers, words.kept))
        process.start()
        process.join()
        if process.exitcode:
            failed.append(f"{name} (exit {process.exitcode})")
    print(f"failed: {', '.join(failed)}" if failed else "no defect")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
