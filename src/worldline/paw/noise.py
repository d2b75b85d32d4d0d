"""Noisy observation tokens, and how much of the gradient they take (PaW appendix A.4, figure 2c).

A token is noisy when it overlaps a random identifier or a brand in the text: nobody could have predicted it. The
labels are evaluation only. They are hand-written rules for shops, as in the paper; other worlds have none. The same
rule, a token that overlaps a match, takes what the user's own patterns (`--world.skip`) match out of the targets.
"""

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from worldline.paw.loss import WorldLoss, logit_gradient
from worldline.paw.novelty import sentences
from worldline.paw.rows import Encode, Observed

ASIN = re.compile(r"B[0-9A-Z]{9}")
BRAND = re.compile(r"\b[A-Z]{4,}[0-9]*\b")
PATTERNS: dict[str, tuple[re.Pattern[str], ...]] = {"shop": (ASIN, BRAND)}


def noisy_tokens(text: str, offsets: list[tuple[int, int]], patterns: tuple[re.Pattern[str], ...]) -> list[bool]:
    """True for every token whose characters overlap a match."""
    spans = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    return [any(start < high and low < end for low, high in spans) for start, end in offsets]


def gradient_share(logprob: Tensor, noisy: Tensor, kind: WorldLoss, rho: float = 0.2) -> Tensor:
    """Noisy tokens' part of the summed target-logit gradients; NaN where there is no gradient at all."""
    gradient = logit_gradient(logprob, kind, rho)
    return (gradient * noisy).sum() / gradient.sum()


def encoder(tokenizer: Any, family: str, skip: Sequence[str] = (), *, novel: bool = False) -> Encode:
    """Turns an observation into its tokens and their noise labels; what a pattern of `skip` matches is no target.

    `novel`: with its sentences, of which those that the episode has shown before will be no targets.
    """
    patterns, unwanted = PATTERNS.get(family, ()), tuple(map(re.compile, skip))
    places = bool(patterns or unwanted or novel)

    def encode(text: str) -> Observed:
        text = text.strip()  # as prompts show it
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=places)
        ids = tuple(encoded["input_ids"])
        noisy = noisy_tokens(text, encoded["offset_mapping"], patterns) if patterns else [False] * len(ids)
        touched = noisy_tokens(text, encoded["offset_mapping"], unwanted) if unwanted else []
        skipped = frozenset(at for at, hit in enumerate(touched) if hit)
        return Observed(ids, tuple(noisy), skipped, sentences(text, encoded["offset_mapping"]) if novel else ())

    return encode
