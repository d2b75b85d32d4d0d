"""How a latent world model imagines: the settings of algorithm 2, and the presets that `evaluate` compares.

All presets but `adwm-paper` choose among the same candidate answers, read them back in the same way and have the same
outcome and list models; they differ in where the next latent comes from. `adwm-noise` is `adwm` with noise in the place
of the sampled latent: what is left without the diffusion.
"""

from dataclasses import dataclass
from typing import Literal

DynamicsName = Literal["diffusion", "noise", "wm-ar", "wm-joint", "wm-knn"]


@dataclass(frozen=True)
class ImaginationConfig:
    """How to imagine. The default is the exact conditional model, decoded among the log's answers and read back."""

    dynamics: DynamicsName = "diffusion"
    steps: int = 10
    """Reverse steps of the diffusion; 50 with eta 1 is DDPM."""
    eta: float = 0.0
    w: float = 0.0
    alpha: float = 0.0
    clip: float = 1.0
    decode: Literal["learned", "nearest"] = "learned"
    """By the fitted decoder, or to the candidate whose latent is nearest."""
    reread: bool = True
    """Read the decoded text back, or carry the sampled latent forward."""
    outcome: Literal["learned", "heads"] = "learned"
    """By the outcome model of the text, or by the paper's heads: a threshold on the hazard, the mean reward."""


IMAGINATION_PRESETS: dict[str, ImaginationConfig] = {
    "adwm": ImaginationConfig(),
    "adwm-noise": ImaginationConfig("noise"),
    "adwm-paper": ImaginationConfig(
        steps=50, eta=1.0, w=0.5, alpha=0.1, decode="nearest", reread=False, outcome="heads"
    ),
    "wm-ar": ImaginationConfig("wm-ar"),
    "wm-joint": ImaginationConfig("wm-joint"),
    "wm-knn": ImaginationConfig("wm-knn"),
}
