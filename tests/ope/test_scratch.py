"""Arrays on disk hold what was written, leave memory when released, and leave no file behind."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from worldline.ope import scratch as module
from worldline.ope.scratch import Scratch
from worldline.types import WorldlineError


def resident(kind: str = "RssFile") -> int:
    """Bytes of mapped files, or of shared memory, that this process has in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((kind, "RssShmem")))


def test_small_arrays_stay_in_memory(tmp_path: Path) -> None:
    kept = Scratch(tmp_path / "nowhere")
    assert kept.empty(10).base is None
    values = np.arange(5.0)
    assert kept.stored(values) is values


def test_what_was_written_is_read_after_a_release(tmp_path: Path) -> None:
    kept = Scratch(tmp_path)
    values = np.random.default_rng(0).normal(size=3 * module.IN_MEMORY)
    copy = kept.stored(values)
    kept.release()
    np.testing.assert_array_equal(copy, values)
    copy[7] = 0.5
    kept.release()
    assert copy[7] == 0.5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="this system takes no advice on memory")
def test_a_release_gives_memory_back(tmp_path: Path) -> None:
    kept = Scratch(tmp_path)
    array = kept.empty(1 << 22)
    array[:] = 1.0
    full = resident()
    kept.release()
    assert full - resident() > 0.9 * array.nbytes
    assert array.sum() == len(array)


@pytest.mark.parametrize("size", [3, 70_000])
def test_a_growing_column_is_its_parts_end_to_end(tmp_path: Path, size: int) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=size) for _ in range(7)]
    column = Scratch(tmp_path).column()
    for part in parts:
        column.append(part)
    np.testing.assert_array_equal(column.array, np.concatenate(parts))


def test_a_disk_that_is_too_small_is_an_error_and_no_crash(tmp_path: Path) -> None:
    with pytest.raises(WorldlineError, match=r"a temporary file of [\d,]+ bytes: cannot be written"):
        Scratch(tmp_path).empty(1 << 56)
