"""Text to index terms as Lucene's English analysis does it: words, possessives off, stop words out, stems.

Words follow Unicode's default word boundaries (UAX 29), as Lucene's standard tokenizer reads them.
"""

import re

from worldline.envs.webshop.stemmer import stem

_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_LETTERS = r"[^\W\d_]+(?:_*[^\W\d_]+|[.:'’·][^\W\d_]+)*"
_NUMBERS = r"\d+(?:_*\d+|[.,;'’]\d+)*"
_WORD = re.compile(rf"_*(?:{_LETTERS}|{_NUMBERS})(?:_*(?:{_LETTERS}|{_NUMBERS}))*_*")


def terms(text: str) -> list[str]:
    """The index terms of `text`, in order, repeats kept."""
    found = []
    for word in _WORD.findall(text.replace("’", "'")):
        word = word.lower().removesuffix("'s")
        if word not in STOP_WORDS:
            found.append(stem(word))
    return found
