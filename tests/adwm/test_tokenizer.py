import hashlib
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from worldline.adwm.tokenizer import HashTokenizer, marks, padded_ids
from worldline.kernel.words import words


def test_ids_follow_from_the_text_alone() -> None:
    """Against the definition: blake2b of the lower-cased word, modulo the buckets, 0 kept for padding."""
    expected = [
        1 + int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "big") % 999
        for word in (b"go", b"to", b"1", b".")
    ]
    assert HashTokenizer(1000, 16).encode("Go to  1.").tolist() == expected


def test_another_process_with_another_hash_seed_agrees() -> None:
    code = "from worldline.adwm.tokenizer import HashTokenizer; print(HashTokenizer(32768, 128).encode('take apple 1'))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": s, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for s in ("1", "2")
    }
    assert seen == {f"{HashTokenizer(32768, 128).encode('take apple 1')}\n"}


@given(st.text(max_size=400))
def test_any_text_has_ids_in_range_and_within_length(text: str) -> None:
    ids = HashTokenizer(64, 16).encode(text)
    assert 1 <= len(ids) <= 16
    assert ((ids >= 0) & (ids < 64)).all()
    assert len(ids) == min(16, max(1, len(words(text))))


def test_an_over_long_text_keeps_both_ends() -> None:
    tokenizer = HashTokenizer(32768, 8)
    long = " ".join(f"w{i}" for i in range(100_000))
    assert tokenizer.encode(long).tolist() == tokenizer.encode("w0 w1 w2 w3 w99996 w99997 w99998 w99999").tolist()


def test_padding_and_marks() -> None:
    tokenizer = HashTokenizer(32768, 16)
    action, goal, seen = (tokenizer.encode(t) for t in ("take apple 1", "put an apple away", "an apple 1 is here"))
    assert marks(action, set(goal.tolist()), set(seen.tolist())).tolist() == [0, 3, 2]
    table = padded_ids([action, goal])
    assert table.shape == (2, 4)
    assert table[0, 3] == 0
    assert marks(table[0], {0})[3] == 0
