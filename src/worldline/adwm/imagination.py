"""How a world model imagines: the settings of algorithm 2, and the presets that `evaluate` compares.

The first preset is ours; the second is the paper's letter; the others put a rival's dynamics in the place of diffusion.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ImaginationConfig:
    """How to imagine. The default is the exact conditional model, decoded, read back and calibrated."""

    dynamics: Literal["diffusion", "wm-ar", "wm-joint", "wm-knn"] = "diffusion"
    steps: int = 10
    """Reverse steps of the diffusion; 50 with eta 1 is DDPM."""
    eta: float = 0.0
    w: float = 0.0
    alpha: float = 0.0
    clip: float = 1.0
    decode: Literal["learned", "nearest", "copy"] = "learned"
    """By the fitted decoder; to the nearest logged answer; or the neighbour's own step, reward and end included."""
    reread: bool = True
    """Read the decoded text back, or carry the sampled latent forward."""
    heads: Literal["calibrated", "paper"] = "calibrated"
    """A Bernoulli draw at the calibrated hazard, or the paper's threshold on the head as it was trained."""


IMAGINATION_PRESETS: dict[str, ImaginationConfig] = {
    "adwm": ImaginationConfig(),
    "adwm-paper": ImaginationConfig(steps=50, eta=1.0, w=0.5, alpha=0.1, decode="nearest", reread=False, heads="paper"),
    "wm-ar": ImaginationConfig("wm-ar", decode="nearest", reread=False),
    "wm-joint": ImaginationConfig("wm-joint", decode="nearest", reread=False),
    "wm-knn": ImaginationConfig("wm-knn", decode="copy", reread=False),
}
