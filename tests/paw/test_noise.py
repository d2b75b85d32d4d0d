"""Noise labels by the paper's rules, and the share of the gradient they take, by the closed forms of appendix A.4."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from worldline.paw.noise import PATTERNS, encoder, gradient_share, noisy_tokens

PAGE = "[SEP] B08XYZ1234 [SEP] NOVATECH200 lamp, LED light [SEP] $10.99"


def test_identifiers_and_brands_are_noise_markers_and_short_words_are_not() -> None:
    words, at = [], 0
    for word in PAGE.split(" "):
        words.append((word, (at, at + len(word))))
        at += len(word) + 1
    noisy = noisy_tokens(PAGE, [span for _, span in words], PATTERNS["shop"])
    assert [word for (word, _), label in zip(words, noisy, strict=True) if label] == ["B08XYZ1234", "NOVATECH200"]


def test_each_piece_of_a_noisy_word_is_noisy() -> None:
    offsets = [(6, 9), (9, 16), (16, 17), (17, 22), (5, 6), (3, 7)]  # B08 XYZ1234 blank [SEP] blank, and one across
    assert noisy_tokens(PAGE, offsets, PATTERNS["shop"]) == [True, True, False, False, False, True]


def test_shares_follow_the_closed_forms() -> None:
    p = torch.tensor([0.01, 0.05, 0.9, 0.15], dtype=torch.float64)
    noisy = torch.tensor([1, 1, 0, 0])
    ce, mae, cmae = (1 - p), p * (1 - p), p * (1 - p) * (p <= 0.2)
    for kind, slope in (("ce", ce), ("mae", mae), ("cmae", cmae)):
        expected = float(slope[:2].sum() / slope.sum())
        assert float(gradient_share(p.log(), noisy, kind, 0.2)) == pytest.approx(expected)
    assert gradient_share(p.log(), noisy, "ce") > gradient_share(p.log(), noisy, "mae")


def test_what_the_user_skips_is_read_but_no_target(start: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(start)
    plain, skipping = (encoder(tokenizer, "household", skip)("at 3") for skip in ((), (r"[0-9]+", "nothing")))
    assert skipping.ids == plain.ids
    assert (plain.skipped, skipping.skipped) == (frozenset(), frozenset({1}))


def test_sentences_come_with_the_tokens_that_overlap_them(start: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(start)
    plain, novel = (encoder(tokenizer, "household", novel=wanted)(" at 3\nat 2 ") for wanted in (False, True))
    assert novel.ids == plain.ids and len(novel.ids) == 5
    assert plain.sentences == ()
    assert [(part.text, part.places) for part in novel.sentences] == [
        ("at 3", frozenset({0, 1, 2})),
        ("at 2", frozenset({3, 4})),
    ]


def test_only_shops_have_labels(start: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(start)
    assert encoder(tokenizer, "household")(" at 3 \n").noisy == (False, False)  # stripped, as prompts show it
    labelled = encoder(tokenizer, "shop")("LAMP at 3")
    assert labelled.noisy == (True, False, False)
