"""`--interface soft|distilled|text|auto`: a policy and an ensemble in, what plays and guides in imagination out.

`text` serves every policy: it reads what is decoded. `soft` and `distilled` need a language model's weights.
`auto` is `text` where at least `ENOUGH_DECODABLE` of the log's own answers are among the candidates that its other
episodes give, and for every policy without weights; else it is `distilled`. Adapters are fitted here
when they are not yet in `folder`: by family of models for `soft`, by policy for `distilled`.
"""

import hashlib
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from safetensors import safe_open
from safetensors.torch import save

from worldline import files
from worldline.adwm.ensemble import Ensemble, Member
from worldline.adwm.soft_tokens.adapter import Adapter, AdapterConfig, FittedAdapter, fit_adapter
from worldline.adwm.soft_tokens.distillation import DistillationConfig, distil
from worldline.adwm.soft_tokens.guidance import guide_through
from worldline.adwm.soft_tokens.tokens import soft_policy
from worldline.adwm.world_model_env import Guide
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import replay
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import InputError, Policy, derive_seed

Interface = Literal["soft", "distilled", "text", "auto"]
ENOUGH_DECODABLE = 0.8
_SAMPLE = 200


class PolicyInterfaceConfig(BaseModel):
    """How adapters are made, and how often guidance asks the policy anew for its next action."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    adapter: AdapterConfig = AdapterConfig()
    distillation: DistillationConfig = DistillationConfig()
    redraw: int = 1


@dataclass(frozen=True)
class PolicyInterface:
    """How a policy perceives an imagined world. `policy` acts there; mix epsilon into it, not into what was given."""

    interface: Literal["soft", "distilled", "text"]
    policy: Policy
    guide: Guide | None = None
    """Continuation guidance through the policy; None where there is no gradient to be had."""
    figures: dict[str, float] = field(default_factory=dict)
    """Mean over the members: top-1 retrieval of the adapters, divergence and agreement of distilled ones."""
    reason: str = ""


def connect(
    policy: Policy,
    ensemble: Ensemble,
    interface: Interface = "auto",
    config: PolicyInterfaceConfig | None = None,
    *,
    folder: Path | None = None,
    seed: int = 0,
) -> PolicyInterface:
    """`policy` as it plays in `ensemble` through `interface`."""
    config = config or PolicyInterfaceConfig()
    reason = f"--interface {interface}"
    if interface == "auto":
        interface, reason = _automatic(policy, ensemble.kernel)
    if interface == "text":
        return PolicyInterface("text", policy, reason=reason)
    if not isinstance(policy, HFPolicy):
        raise InputError(
            f"--interface {interface}: {policy.name} has no weights here that could read soft tokens: --interface text"
        )
    fitted = [_adapter(policy, member, ensemble, config, folder, seed) for member in ensemble.members]
    if interface == "distilled":
        fitted = [_distilled(policy, index, ensemble, one, config, folder, seed) for index, one in enumerate(fitted)]
    playing = soft_policy(policy, [one.adapter for one in fitted])
    figures = {name: sum(one.figures[name] for one in fitted) / len(fitted) for name in fitted[0].figures}
    return PolicyInterface(interface, playing, guide_through(playing, config.redraw), figures, reason)


def decodable(kernel: KernelModel, steps: int = _SAMPLE) -> float:
    """Share of logged answers that are among the candidates which the log's other episodes give."""
    episodes = kernel.log.episodes
    numbers = random.Random(0).sample(range(len(episodes)), min(len(episodes), steps // 5))
    decoded: list[bool] = []
    for number in numbers:
        for state, _, row in replay(kernel.log.language, episodes[number], number):
            decoded.append(row.answer in kernel.consider(state, row.action, own=number).candidates.texts)
        if len(decoded) >= steps:
            break
    return sum(decoded) / max(1, len(decoded))


def _automatic(policy: Policy, kernel: KernelModel) -> tuple[Literal["text", "distilled"], str]:
    if not isinstance(policy, HFPolicy):
        return "text", f"auto: {policy.name} has no weights to read soft tokens with"
    share = decodable(kernel)
    words = f"auto: {share:.0%} of the log's answers are among the candidates that its other episodes give"
    return ("text" if share >= ENOUGH_DECODABLE else "distilled"), words


def _adapter(
    policy: HFPolicy, member: Member, ensemble: Ensemble, config: PolicyInterfaceConfig, folder: Path | None, seed: int
) -> FittedAdapter:
    table = policy.model.get_input_embeddings().weight
    key = _digest([table, member.decoder.latents], f"{config.adapter.model_dump_json()} {seed}")
    path = folder / f"soft-{key}.safetensors" if folder else None
    if path and path.is_file():
        return _load(path, config.adapter, member, table)
    answers = [row.answer for row in ensemble.kernel.log.rows]
    seed = derive_seed(seed, "channel")
    fitted = fit_adapter(member, answers, policy.encoder.tokenizer, table, config.adapter, seed=seed)
    return _kept(fitted, path)


def _distilled(
    policy: HFPolicy,
    index: int,
    ensemble: Ensemble,
    start: FittedAdapter,
    config: PolicyInterfaceConfig,
    folder: Path | None,
    seed: int,
) -> FittedAdapter:
    member = ensemble.members[index]
    weights = [member.decoder.latents, *policy.model.parameters()]
    settings = f"{policy.settings.model_dump_json()} {config.model_dump_json(exclude={'redraw'})} {seed}"
    path = folder / f"distilled-{_digest(weights, settings)}.safetensors" if folder else None
    if path and path.is_file():
        return _load(path, config.adapter, member, policy.model.get_input_embeddings().weight)
    seed = derive_seed(seed, "distil")
    learned = distil(policy, member, index, ensemble.episodes, start.adapter, config.distillation, seed=seed)
    return _kept(FittedAdapter(learned.adapter, start.figures | learned.figures), path)


def _digest(tensors: list[torch.Tensor], settings: str) -> str:
    digest = hashlib.blake2b(settings.encode(), digest_size=12)
    for tensor in tensors:
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _kept(fitted: FittedAdapter, path: Path | None) -> FittedAdapter:
    if path:
        state = {name: value.contiguous().cpu() for name, value in fitted.adapter.state_dict().items()}
        files.write(path, save(state, metadata={"figures": json.dumps(fitted.figures)}))
    return fitted


def _load(path: Path, config: AdapterConfig, member: Member, table: torch.Tensor) -> FittedAdapter:
    adapter = Adapter(member.decoder.latents.shape[-1], table.shape[-1], hidden=config.hidden)
    try:
        with safe_open(str(path), "pt") as kept:
            adapter.load_state_dict({name: kept.get_tensor(name) for name in kept.keys()})  # noqa: SIM118 - a file, no dict: it has keys() alone
            figures = json.loads((kept.metadata() or {})["figures"])
    except Exception as error:
        raise InputError(f"{path}: not a readable adapter ({' '.join(str(error).split())[:120]}): delete it") from None
    return FittedAdapter(adapter.to(table.device).eval().requires_grad_(False), figures)
