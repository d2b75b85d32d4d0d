"""Text to index terms as Lucene's English analysis does it: words, possessives off, stop words out, stems.

Words follow Unicode's default word boundaries (UAX 29) in the reading of Lucene 9's standard tokenizer: ideographs and
emoji are terms of their own, runs of katakana or of a south-east Asian script are one term each. Scripts that entered
Unicode after version 12 may be split differently.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from worldline.envs.webshop.stemmer import stem

_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())

# Ranges of code points by their part in a word. Letters, digits and marks that are not here go by their category.
_IDEOGRAPHS = "2e80-2e99 2e9b-2ef3 2f00-2fd5 3007 3021-3029 3038-303a 3041-3096 309d-309f 3400-4db5 4e00-9fef f900-fad9"
_KATAKANA = "3031-3035 309b-309c 30a0-30fa 30fc-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff9d"
_SOUTH_EAST_ASIAN = """
e01-e3a e40-e4e e81-ecd edc-edf 1000-103f 1050-108f 109a-109f 1780-17d3 17d7 17dc-17dd 1950-1974 1980-19c9 19da
19de-19df 1a20-1a7c 1aa0-1aad a9e0-a9ef a9fa-a9fe aa60-aac2 aadb-aadf 11700-1172b 1173a-1173b 1173f
"""
_EMOJI = """
a9 ae 203c 2049 2122 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 25aa-25ab 25b6 25c0 25fb-25fe
2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757
2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f000-1f0ff 1f10d-1f10f
1f12f 1f16c-1f16f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3ff 1f400-1f53d
1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a
1f93c-1f945 1f947-1fffd
"""
_BETWEEN_LETTERS = "3a b7 387 5f4 2027 fe13 fe55 ff1a"
_BETWEEN_DIGITS = "2c 3b 37e 589 60c-60d 66c 7f8 2044 fe10 fe14 fe50 fe54 ff0c ff1b"
_BETWEEN_BOTH = "27 2e 2018-2019 2024 fe52 ff07 ff0e"
_FLAGS = "1f1e6-1f1ff"
_MORE_LETTERS = "2c2-2c5 2d2-2d7 24b6-24e9 1f170-1f171 1f17e-1f17f"
_SKIN_TONES = "1f3fb-1f3ff"
_MORE_MARKS = "ff9e-ff9f"
_NO_MARKS = "200b 200d ff9e-ff9f"
_POSSESSIVE = re.compile("['\u2019\uff07][sS]$")


def terms(text: str) -> list[str]:
    """The index terms of `text`, in order, repeats kept."""
    return [term for word in _words(text) if (term := _term(word))]


@lru_cache(maxsize=1 << 18)
def _term(word: str) -> str:
    """The term of a word, empty for a stop word."""
    word = _POSSESSIVE.sub("", word).lower()
    return "" if word in STOP_WORDS else stem(word)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII.findall(text)
    # no word crosses a blank, and the pattern for all of Unicode is slow
    return [word for part in text.split() for word in (_ASCII if part.isascii() else _unicode()).findall(part)]


def _word(letter: str, digit: str, joiner: str, in_word: str, in_number: str, mark: str = "") -> str:
    """The pattern of a word from its character classes; a mark belongs to what it follows."""
    letter, digit = f"[{letter}]{mark}", f"[{digit}]{mark}"
    joiners, in_word, in_number = f"(?:[{joiner}]{mark})*", f"[{in_word}]{mark}", f"[{in_number}]{mark}"
    letters = f"{letter}(?:(?:{joiners}|{in_word}){letter})*"
    digits = f"{digit}(?:(?:{joiners}|{in_number}){digit})*"
    # starting inside a run of joiners would only make a long run slow
    return f"(?<![{joiner}]){joiners}(?:{letters}|{digits})(?:{joiners}(?:{letters}|{digits}))*{joiners}"


_ASCII = re.compile(_word("a-zA-Z", "0-9", "_", "'.:", "'.,;"))


@lru_cache(maxsize=1)
def _unicode() -> re.Pattern[str]:
    kinds = _by_category()
    both = _class(_BETWEEN_BOTH)
    marks = kinds["mark"] + _class(_SKIN_TONES)
    mark = f"[{marks}\u200d]*+"
    word = _word(
        kinds["letter"],
        kinds["digit"],
        kinds["joiner"],
        _class(_BETWEEN_LETTERS) + both,
        _class(_BETWEEN_DIGITS) + both,
        mark,
    )
    picture = f"[{_class(_EMOJI)}][{marks}]*"
    return re.compile(
        f"{word}|[{_class(_IDEOGRAPHS)}]{mark}|(?:[{_class(_KATAKANA)}]{mark})+|(?:[{_class(_SOUTH_EAST_ASIAN)}]{mark})+"
        f"|{picture}(?:\u200d{picture})*|[{_class(_FLAGS)}]{{2}}|[#*]\ufe0f?\u20e3"
    )


def _by_category() -> dict[str, str]:
    """Character classes for what Unicode's categories tell, the special ranges left out."""
    special = {
        code
        for ranges in (_IDEOGRAPHS, _KATAKANA, _SOUTH_EAST_ASIAN, _EMOJI, _NO_MARKS)
        for first, last in _pairs(ranges)
        for code in range(first, last + 1)
    }
    classes = {"letter": _class(_MORE_LETTERS), "digit": "", "mark": _class(_MORE_MARKS), "joiner": ""}
    kinds = {"L": "letter", "Nl": "letter", "Nd": "digit", "M": "mark", "Cf": "mark", "Pc": "joiner"}

    def kind(code: int) -> str | None:
        category = unicodedata.category(chr(code))
        return None if code in special else kinds.get(category) or kinds.get(category[0])

    for name, run in groupby(range(0x20000), key=kind):
        if name is not None:
            codes = list(run)
            classes[name] += _class(f"{codes[0]:x}-{codes[-1]:x}")
    return classes


def _class(ranges: str) -> str:
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _pairs(ranges))


def _pairs(ranges: str) -> list[tuple[int, int]]:
    ends = [part.partition("-") for part in ranges.split()]
    return [(int(first, 16), int(last or first, 16)) for first, _, last in ends]
