"""An imagined observation: text like any other, that also knows the latent it was decoded from.

It travels through turns and histories as the string it is, so nothing between the imagined world and a policy has to
know about latents. A policy that reads text reads the text; one that reads soft tokens (`interface`) finds the latent.
"""

import itertools
from typing import Self
from weakref import WeakValueDictionary

from torch import Tensor


class Sight(str):
    """A text with the latent (d,) of one member of an ensemble. Its number is its own for as long as the process."""

    latent: Tensor
    member: int
    number: int

    def __new__(cls, text: str, latent: Tensor, member: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.latent, made.member, made.number = latent, member, next(_NUMBERS)
        _ALIVE[made.number] = made
        return made

    @staticmethod
    def of(number: int) -> "Sight":
        """The sight with this number; it must still be held by somebody, a turn for instance."""
        return _ALIVE[number]


_NUMBERS = itertools.count()
_ALIVE: "WeakValueDictionary[int, Sight]" = WeakValueDictionary()
