"""World models of a few updates, for tests of what is done with them."""

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from worldline.adwm import decoder, fit
from worldline.adwm.fit import RECIPES
from worldline.adwm.fitting import training
from worldline.adwm.model import PRESETS
from worldline.kernel import fitting, gate, lists, outcome, wordings
from worldline.kernel.bag import Bag
from worldline.kernel.model import KernelModel

REPLAYED = 4
"""Episodes that a brief fit replays in the kernel model, at most."""

BRIEF = PRESETS["small"].model_copy(
    update={
        "buckets": 2048,
        "width": 32,
        "history_layers": 1,
        "heads": 2,
        "ff": 32,
        "encoder_hidden": 32,
        "latent": 16,
        "score_width": 64,
        "projector": (16, 2, 16),
        "head_width": 16,
        "inverse_width": 16,
        "diffusion_steps": 20,
    }
)
"""Every part of the preset `small`, and of each less."""


def make_fits_brief(patch: pytest.MonkeyPatch, updates: int = 50) -> None:
    """Until the patch is undone: few updates of every part, few replays, no fits without some of the policies."""
    for module in (gate, lists, outcome, wordings):
        patch.setattr(module, "_STEPS", updates)
    # else the weights of a brief fit would be those it began with
    patch.setattr(gate, "_EVERY", min(gate._EVERY, max(1, updates // 2)))
    replay_error = fit.replay_error

    def replayed_briefly(model: KernelModel | Bag, numbers: Sequence[int], seed: int) -> float:
        return replay_error(model, numbers[:REPLAYED], seed)

    patch.setattr(fit, "replay_error", replayed_briefly)
    patch.setattr(training, "_SCORE_UPDATES", updates)
    patch.setattr(decoder, "_UPDATES", updates)
    patch.setattr(fitting, "measuring_left_out", lambda *given: nullcontext(lambda watch: None))


def make_networks_small(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone: networks of `BRIEF`, after two epochs. What they imagine is worth little: only for
    tests that do not ask for it."""
    patch.setitem(PRESETS, "small", BRIEF)
    patch.setitem(RECIPES, "small", RECIPES["small"].model_copy(update={"epochs": 2}))
