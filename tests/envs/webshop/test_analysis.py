"""Terms and stop words against Lucene's."""

import pytest

from worldline.envs.webshop.analysis import STOP_WORDS, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # Lucene 9.5's answers
        ("Men's U.S.A. shirts, 3.5oz & 1,000 pcs", ["men", "u.s.a", "shirt", "3.5oz", "1,000", "pc"]),
        ("don’t 1⁄2 wash_cold café 10–12", ["don’t", "1⁄2", "wash_cold", "café", "10", "12"]),
        ("★ best ❤️❤️ deal™ 好用 the of", ["★", "best", "❤️", "❤️", "deal", "™", "好", "用"]),
        ("foo: bar:baz 1:2 a.b 1.b", ["foo", "bar:baz", "1", "2", "a.b", "1", "b"]),
        ("", []),
        ("_ __ - ' .", []),
    ],
)
def test_terms_are_lucenes(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_there_are_33_stop_words() -> None:
    assert len(STOP_WORDS) == 33
