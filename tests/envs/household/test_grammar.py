"""Text grammars that cannot be read are refused; what a good one says is tested in test_engine."""

import pytest

from worldline.envs.household.grammar import TextGrammar
from worldline.types import InputError


def test_grammars_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(InputError, match="not an ALFWorld text grammar"):
        TextGrammar.read("nothing of the kind")
    with pytest.raises(InputError, match="not readable"):
        TextGrammar.read('grammar :: """ {"intro": [ """;')
