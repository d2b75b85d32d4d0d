"""How much of the world-model gradient falls on tokens nobody could predict, by loss (PaW appendix A.4, figure 2c).

Noisy are random identifiers and brands of shops, by the hand-written rules of `paw.noise`. The model plays, and every
observation token it met is scored; a loss's share is the noisy tokens' part of its summed target-logit gradients.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from worldline import envs
from worldline.bench import Figures
from worldline.config import Config, option
from worldline.paw import model as models
from worldline.paw.batches import action_starts, micro_batches, pack
from worldline.paw.loss import WorldLoss, logit_gradient
from worldline.paw.noise import encoder, gradient_share
from worldline.paw.rows import StepRow, to_rows
from worldline.paw.sequences import token_sequences
from worldline.policies import PolicyConfig
from worldline.policies.language_model.hf import from_model
from worldline.rollout import Rollout, plan


class NoiseBenchConfig(Config):
    """Share of the world-model gradient on noisy observation tokens: cross-entropy against MAE and clipped MAE."""

    examples: ClassVar[tuple[str, ...]] = ("worldline bench noise", "worldline bench noise --model runs/clone/model")

    model: Path | None = option(None, help="a causal LM folder; default: a small clone that also learns the pages")
    options: dict[str, Any] = option({"products": 96, "max_steps": 8}, help="settings of the shop")
    episodes: int = option(24, help="episodes to play", ge=1)
    clone_episodes: int = option(120, help="demonstrations the small clone is made of", ge=1)
    rho: float = option(0.2, help="clipped MAE leaves tokens above this probability alone", ge=0, le=1)
    batch_tokens: int = option(16384, help="tokens in one forward pass", ge=1)
    seed: int = option(0, help="decides tasks and draws")


Settings = NoiseBenchConfig


def run(settings: NoiseBenchConfig) -> Figures:
    """Play, score, compare the losses."""
    with TemporaryDirectory() as folder:
        path = settings.model or _clone(settings, Path(folder))
        lm, tokenizer = models.load(str(path))
    learner = models.wrap(lm, models.LearnerConfig()).to("cuda" if torch.cuda.is_available() else "cpu")
    world = envs.load("shop", None, settings.options)
    policy = from_model(learner.lm, tokenizer, PolicyConfig(keep_prompts=True))
    played = list(Rollout(world, policy).play(plan(world, "train", settings.episodes, seed=settings.seed, run="noise")))
    limit = lm.config.get_text_config().max_position_embeddings
    rows = to_rows(played, encoder(tokenizer, world.family), max_length=limit, last_answer=False)
    logprob, noisy = scored(learner, rows, settings.batch_tokens)
    table = [_row(logprob, noisy, kind, settings.rho) for kind in get_args(WorldLoss)]
    figures = {f"noise_share_{row['loss']}": float(row["noise_share"]) for row in table}
    return Figures({"tokens": float(len(noisy)), "noisy_tokens": float(noisy.mean())} | figures, table)


def _row(logprob: Tensor, noisy: Tensor, kind: WorldLoss, rho: float) -> dict[str, Any]:
    gradient = logit_gradient(logprob, kind, rho)
    return {
        "loss": kind,
        "noise_share": float(gradient_share(logprob, noisy, kind, rho)),
        "per_noisy_token": float(gradient[noisy > 0].mean()),
        "per_other_token": float(gradient[noisy == 0].mean()),
    }


@torch.no_grad()
def scored(learner: models.Learner, rows: list[StepRow], budget: int) -> tuple[Tensor, Tensor]:
    """Log-probability of every observation token, and whether it is noisy."""
    world, starts = [True] * len(rows), action_starts(rows)
    logprobs, labels = [], []
    for part in micro_batches(token_sequences(rows, range(len(rows)), world), budget):
        batch = pack(rows, starts, part, world).to(learner.lm.device)
        logprobs.append(learner(batch)["world"].double().cpu())
        labels.append(batch.world_noisy.double().cpu())
    return torch.cat(logprobs), torch.cat(labels)


def _clone(settings: NoiseBenchConfig, folder: Path) -> Path:
    from worldline.sft import SftConfig, sft

    sft(
        SftConfig(
            source="shop",
            out=folder,
            options=settings.options,
            target="both",
            episodes=settings.clone_episodes,
            epochs=2,
            context=2048,
        )
    )
    return folder / "model"
