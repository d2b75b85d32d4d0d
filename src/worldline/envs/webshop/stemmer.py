"""Porter's stemmer (1980), with the two departures of its author's own program that Lucene has too.

The departures: `bli` becomes `ble` (not `abli` -> `able`) and `logi` becomes `log`. Words of one or two letters stay.
"""

from itertools import pairwise

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # packed lines read better  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # packed lines read better  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
)  # packed lines read better  # fmt: skip


def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) <= 2:
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    word = _drop(word)
    return _tidy(word)


def _plural(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending):
            root = word[: -len(ending)]
            return _mend(root) if _has_vowel(root) else word
    return word


def _mend(root: str) -> str:
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if len(root) >= 2 and root[-1] == root[-2] and _consonant(root, len(root) - 1):
        return root if root[-1] in "lsz" else root[:-1]
    if _measure(root) == 1 and _ends_cvc(root):
        return root + "e"
    return root


def _replace(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, other in endings:
        if word.endswith(ending):
            root = word[: -len(ending)]
            return root + other if _measure(root) > 0 else word
    return word


def _drop(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            root = word[: -len(ending)] + (ending[0] if ending in ("sion", "tion") else "")
            return root if _measure(root) > 1 else word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _ends_cvc(root)):
            word = root
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _consonant(word: str, i: int) -> bool:
    letter = word[i]
    if letter in "aeiou":
        return False
    return letter != "y" or i == 0 or not _consonant(word, i - 1)


def _has_vowel(word: str) -> bool:
    return any(not _consonant(word, i) for i in range(len(word)))


def _measure(word: str) -> int:
    """How many times a consonant follows a vowel: m of [C](VC)^m[V]."""
    kinds = [_consonant(word, i) for i in range(len(word))]
    return sum(now and not before for before, now in pairwise(kinds))


def _ends_cvc(word: str) -> bool:
    last = len(word) - 1
    return (
        last >= 2
        and _consonant(word, last)
        and not _consonant(word, last - 1)
        and _consonant(word, last - 2)
        and word[last] not in "wxy"
    )
