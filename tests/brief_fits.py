"""World models of a few updates, for tests of what is done with them."""

import pytest

from worldline.adwm import decoder, training
from worldline.kernel import fitting, gate, lists, outcome, wordings


def make_fits_brief(patch: pytest.MonkeyPatch, updates: int = 50) -> None:
    """Until the patch is undone: few updates of every part, no fits without some of the policies."""
    for module in (gate, lists, outcome, wordings):
        patch.setattr(module, "_STEPS", updates)
    patch.setattr(training, "_SCORE_UPDATES", updates)
    patch.setattr(decoder, "_UPDATES", updates)
    patch.setattr(fitting, "left_out_errors", lambda *given: None)
