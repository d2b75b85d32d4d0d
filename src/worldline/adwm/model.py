"""The world model: its presets, its modules put together, and how it is kept on disk (ADWM section 4.2, appendix E.6).

`paper` is the published network, equal to its table 4 to the parameter. `small` and `base` read actions as text and
the goal on its own, mark the words that goal, action and observation share, and learn latents that tell the next
observation apart from others. Training is in `fit`, rollouts in `world_model_env`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.adwm.diffusion import Noise, cosine_schedule
from worldline.adwm.networks import Cache, HistoryEncoder, Projector, Row, ScoreNet, TextEncoder, caches, mlp
from worldline.adwm.tokenizer import HashTokenizer
from worldline.adwm.weights import load_weights, save_weights
from worldline.types import InputError

Preset = Literal["paper", "small", "base"]
MAX_TABLE = 256
Number = TypeVar("Number", float, Tensor, npt.NDArray[np.float64])
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


class Architecture(BaseModel):
    """Sizes. The defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Preset = "paper"
    buckets: int = 32_768
    tokens: int = 128
    width: int = 128
    layers: int = 4
    history_layers: int = 4
    heads: int = 4
    ff: int = 512
    encoder_hidden: int = 256
    latent: int = 64
    action: int = 32
    positions: int = 64
    window: int = 16
    """Steps of history in view, in training and after; at most `positions`."""
    score_width: int = 256
    projector: tuple[int, int, int] = (256, 4, 512)
    """Hidden width, soft tokens, width of a soft token."""
    head_width: int = 256
    inverse_width: int = 128
    diffusion_steps: int = 50
    text: bool = False
    """Actions and goal as text with marks, and the contrastive head; else the paper's action table."""
    dropout: float = 0.0

    @property
    def stretch(self) -> int:
        """Steps that are read at once; they have one token more, for what was seen before the first."""
        return min(self.window, self.positions - 1)


PRESETS: dict[Preset, Architecture] = {
    "paper": Architecture(),
    "small": Architecture(
        preset="small",
        buckets=8_192,
        width=64,
        layers=1,
        history_layers=2,
        ff=128,
        encoder_hidden=64,
        latent=32,
        window=64,
        score_width=128,
        projector=(64, 4, 64),
        head_width=64,
        inverse_width=64,
        text=True,
        dropout=0.1,
    ),
    "base": Architecture(
        preset="base",
        layers=2,
        history_layers=3,
        encoder_hidden=128,
        positions=128,
        window=128,
        projector=(128, 4, 128),
        head_width=128,
        text=True,
        dropout=0.1,
    ),
}


class LogFacts(BaseModel):
    """What the model has to know about the log it was fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str
    env_version: str = ""
    family: str = ""
    horizon: int
    """Steps after which an episode is cut, unless its task has a budget of its own."""
    budgets: dict[str, int] = {}
    """Of the tasks that are cut earlier."""
    reward_low: float = 0.0
    reward_high: float = 1.0
    episodes: int = 0
    policies: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_dense(cls, given: Any) -> Any:
        """Older files have one fact more, which nothing read."""
        return {name: fact for name, fact in given.items() if name != "dense"} if isinstance(given, dict) else given

    def budget(self, task: str) -> int:
        """Steps after which an episode of `task` is cut."""
        return self.budgets.get(task, self.horizon)

    def reward(self, share: Number) -> Number:
        """The reward that is this share of the log's range."""
        return self.reward_low + share * (self.reward_high - self.reward_low)

    def reward_share(self, reward: Number) -> Number:
        """Where a reward lies in the log's range, 0 to 1."""
        return (reward - self.reward_low) / (self.reward_high - self.reward_low)


class Texts(NamedTuple):
    """A batch of texts as the encoders read them: ids and marks (N, L), and the row in the action table (N,)."""

    ids: Tensor
    marks: Tensor
    rows: Tensor


class Heads(NamedTuple):
    """Logits (N,): that the episode ends, and its reward to go, as a share of the log's range."""

    hazard: Tensor
    reward: Tensor


class WorldModel(nn.Module):
    """p(z_{t+1} | h_t, a_t) by diffusion, and the heads that read it."""

    abar: Tensor

    def __init__(self, architecture: Architecture, facts: LogFacts, actions: tuple[str, ...] = ()) -> None:
        super().__init__()
        if len(actions) > MAX_TABLE:
            raise InputError(f"the action table holds at most {MAX_TABLE} actions, got {len(actions)}")
        self.architecture, self.facts, self.actions = architecture, facts, actions
        self.tokenizer = HashTokenizer(architecture.buckets, architecture.tokens)
        self._row = {action: row for row, action in enumerate(actions)}
        size, text = architecture, architecture.text
        embedding = nn.Embedding(size.buckets, size.width)
        nn.init.normal_(embedding.weight, std=0.3)
        into_latent = mlp(size.width, size.encoder_hidden, size.latent)
        self.observation_encoder = TextEncoder(
            embedding, size.tokens, size.layers, size.heads, size.ff, into_latent, 3 * text, size.dropout
        )
        if text:
            into_action, into_goal = nn.Linear(size.width, size.action), nn.Linear(size.width, size.action)
            self.action_encoder: nn.Module = TextEncoder(
                embedding, size.tokens, 1, size.heads, size.ff, into_action, 3, size.dropout
            )
            self.goal_encoder = TextEncoder(embedding, size.tokens, 1, size.heads, size.ff, into_goal, 0, size.dropout)
            self.no_action = nn.Parameter(torch.zeros(size.action))
            self.expectation_head = mlp(size.width + size.action, size.score_width, size.latent)
        else:
            self.action_encoder = nn.Embedding(len(actions) + 1, size.action)
        inputs = size.latent + size.action * (1 + text)
        self.history_encoder = HistoryEncoder(
            inputs, size.width, size.history_layers, size.heads, size.ff, size.positions, size.dropout
        )
        hidden, tokens, token_width = size.projector
        self.projector = Projector(size.latent, hidden, tokens, token_width)
        self.score = ScoreNet(size.latent, size.width, size.action, size.score_width)
        named, read = size.action if text else len(actions), size.latent + size.width
        self.clone_head = mlp(token_width + size.width, size.head_width, named, activation=nn.ReLU)
        self.inverse_head = mlp(3 * size.latent + size.width, size.inverse_width, named, activation=nn.ReLU)
        self.reward_head = mlp(read, size.head_width, size.head_width, 1)
        self.termination_head = mlp(read, size.head_width, 1)
        self.register_buffer("abar", cosine_schedule(size.diffusion_steps).float(), persistent=False)

    @property
    def device(self) -> torch.device:
        return self.abar.device

    def row(self, action: str) -> int:
        """The action's row in the paper's table; what was not in the log gets the null action's."""
        return self._row.get(action, len(self.actions))

    def encode_observation(self, texts: Texts) -> Tensor:
        """z (N, latent), each of unit mean square: the scale that the noise schedule takes for granted."""
        z = self.observation_encoder(texts.ids, texts.marks)
        return F.layer_norm(z, z.shape[-1:])

    def encode_action(self, texts: Texts) -> Tensor:
        """a (N, action)."""
        encoder = self.action_encoder
        out: Tensor = encoder(texts.ids, texts.marks) if self.architecture.text else encoder(texts.rows)
        return out

    def null_action(self, n: int) -> Tensor:
        """What stands for no action: before the first step, and where classifier-free training hides it."""
        if self.architecture.text:
            return self.no_action.expand(n, -1)
        rows = torch.full((n,), len(self.actions), device=self.device)
        out: Tensor = self.action_encoder(rows)
        return out

    def step_tokens(self, z: Tensor, before: Tensor, goal: Tensor | None) -> Tensor:
        """What the history encoder reads at a step: the latent, the action that led to it, and the goal."""
        return torch.cat([z, before] if goal is None else [z, before, goal], -1)

    def encode_goal(self, texts: Texts) -> Tensor | None:
        """The goal's own vector (N, action); None in `paper`, where the first observation says it."""
        return self.goal_encoder(texts.ids) if self.architecture.text else None

    def advance(self, tokens: Tensor, states: Sequence[Row | None]) -> Cache:
        """One more step token (B, inputs) for each history; one that outgrows the window forgets its older half."""
        fresh = Row(self.history_encoder.empty())
        before = [fresh if state is None else state for state in states]
        if max(cache.real.shape[1] for cache in caches(before)) >= self.architecture.window:
            before = [self._shortened(row) for row in before]
        return self.history_encoder.step(tokens, Cache.stack(before))

    def _shortened(self, state: Row) -> Row:
        if state.length < self.architecture.window:
            return state
        cache = self.history_encoder.empty()
        for token in state.tokens[-(self.architecture.window // 2) :]:
            cache = self.history_encoder.step(token[None], cache)
        return Row(cache)

    def conditional(self, h: Tensor, action: Tensor) -> Noise:
        """eps_theta(. | h, a) as the diffusion functions take it."""
        return self.score.given(h, action)

    def expectation(self, h: Tensor, action: Tensor) -> Tensor:
        """What is compared with the latents of possible next observations (text presets)."""
        out: Tensor = self.expectation_head(torch.cat([h, action], -1))
        return out

    def heads(self, z: Tensor, h: Tensor) -> Heads:
        """The paper's reading of the state after a step."""
        read = torch.cat([z, h], -1)
        return Heads(self.termination_head(read).squeeze(-1), self.reward_head(read).squeeze(-1))

    def clone_query(self, z: Tensor, h: Tensor) -> Tensor:
        """What the behaviour-cloning head expects next: logits of the table, or a vector to compare actions with."""
        out: Tensor = self.clone_head(torch.cat([self.projector(z).mean(-2), h], -1))
        return out

    def inverse_query(self, z: Tensor, after: Tensor, h: Tensor) -> Tensor:
        """Which action led from z to `after`, in the same form."""
        out: Tensor = self.inverse_head(torch.cat([z, after, after - z, h], -1))
        return out

    def write(self, folder: Path, card: str = "") -> None:
        """Weights, settings and a model card, as `from_pretrained` reads them, in a new folder.

        The caller puts it in its place when it is whole.
        """
        folder.mkdir()
        settings = {
            "architecture": self.architecture.model_dump(),
            "facts": self.facts.model_dump(),
            "actions": list(self.actions),
        }
        (folder / _CONFIG).write_text(json.dumps(settings, indent=1), encoding="utf-8")
        save_weights(self, folder / _WEIGHTS)
        (folder / "README.md").write_text(card or model_card(self), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path) -> "WorldModel":
        try:
            settings = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
            architecture = Architecture.model_validate(settings["architecture"])
            model = cls(architecture, LogFacts.model_validate(settings["facts"]), tuple(settings["actions"]))
            load_weights(model, folder / _WEIGHTS)
        except FileNotFoundError as error:
            raise InputError(f"{folder}: not a world model: {Path(error.filename or folder).name} is missing") from None
        except Exception as error:
            raise InputError(f"{folder}: not a readable world model: {' '.join(str(error).split())[:200]}") from None
        return model.eval()


def parameter_counts(model: WorldModel) -> dict[str, int]:
    """Parameters per module, shared ones counted once, in the order of the paper's table 4."""
    seen: set[int] = set()
    counts = {}
    for name, module in model.named_children():
        fresh = [p for p in module.parameters() if id(p) not in seen]
        seen |= {id(p) for p in fresh}
        counts[name] = sum(p.numel() for p in fresh)
    counts["null_action"] = sum(p.numel() for p in model.parameters() if id(p) not in seen)
    return {name: count for name, count in counts.items() if count}


def model_card(model: WorldModel, results: dict[str, float] | None = None, notes: Sequence[str] = ()) -> str:
    """What this model is, was fitted on and may be used for, in Markdown."""
    facts, counts = model.facts, parameter_counts(model)
    lines = [
        f"# World model of `{facts.env}` (ADWM, preset `{model.architecture.preset}`)",
        "",
        "A latent diffusion model of what the environment answers to an action, fitted by `worldline fit` on logged",
        "episodes. It estimates the value of agents without running them; it is not a simulator to act on.",
        "",
        f"- Log: {facts.episodes} episodes of {', '.join(facts.policies) or 'unnamed policies'}",
        f"- Horizon {facts.horizon} steps, rewards from {facts.reward_low:g} to {facts.reward_high:g}",
        f"- {sum(counts.values()):,} parameters: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()),
        "- Trust it only for tasks and actions like those of its log; `worldline evaluate` prints the certificate.",
        *(f"- {note}" for note in notes),
    ]
    if results:
        lines += ["", "| measured on held-out tasks | |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in results.items()]
    return "\n".join(lines) + "\n"
