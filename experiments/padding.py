"""How much of an update is padding, and what packing saves: python experiments/padding.py RESULT.json [--data ALFWORLD]

Episodes of the paper's size (16 groups of 8, up to 50 steps) are played by the expert with a share of chance, in the
wording of two prompts, with a small BPE tokenizer of the worlds' own texts; thoughts of random length stand for a
model's. Rows, mini-batches and micro-batches are those of `worldline train`. In `household` a
small Llama with random weights takes a mini-batch's gradient padded and packed, in turns; both are timed and compared.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

from worldline import envs, files
from worldline.paw import noise
from worldline.paw.batches import action_starts, micro_batches, mini_batches
from worldline.paw.gradient import Experience, UpdateConfig, gradient
from worldline.paw.groups import plan_groups
from worldline.paw.model import LearnerConfig, read_packed, wrap
from worldline.paw.rows import StepRow, to_rows
from worldline.paw.sequences import TokenSequence, token_sequences
from worldline.policies.language_model.encoding import Encoder
from worldline.policies.mixing import ExpertPolicy, RandomPolicy
from worldline.policies.prompts import TEMPLATES
from worldline.rollout import Rollout
from worldline.sft.small import SIZES, small_tokenizer
from worldline.types import Decision, Policy, Trajectory, Turn, uniform

GROUPS, SIZE, STEPS, ROWS = 16, 8, 50, 256
BUDGETS = (4096, 16384, 65536)
MOST_TOKENS = 12_000
"""In a gradient that is timed."""


@dataclass(frozen=True)
class Speaker:
    """Another policy's actions as a model's tokens; where the prompt asks for thoughts, with 20 to 300 of those."""

    policy: Policy
    encoder: Encoder
    name: str = "speaker"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        decisions = self.policy.act(turns)
        prompts, actions = self.encoder.prompts(turns), self.encoder.actions([d.action for d in decisions])
        thoughts = [() if self.encoder.template.one_line else _thought(turn.seed) for turn in turns]
        return [
            replace(decision, prompt_ids=tuple(prompt), token_ids=(*thought, *action))
            for decision, prompt, thought, action in zip(decisions, prompts, thoughts, actions, strict=True)
        ]


@dataclass(frozen=True)
class Mixed:
    """The expert, and at a third of the steps chance."""

    expert: Policy
    chance: Policy
    name: str = "mixed"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        both = zip(self.expert.act(turns), self.chance.act(turns), turns, strict=True)
        return [random if uniform(turn.seed, "mixed") < 1 / 3 else expert for expert, random, turn in both]


def _thought(seed: int) -> tuple[int, ...]:
    chance = random.Random(seed)
    return tuple(chance.choices(range(2, 250), k=chance.randint(20, 300)))


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("result", type=Path)
    words.add_argument("--data", type=Path, help="a folder of ALFWorld games: measured too")
    given = words.parse_args()
    worlds = {"household": None, "shop": None} | ({"alfworld": given.data} if given.data else {})
    result: dict[str, Any] = {"command": "python experiments/padding.py RESULT.json --data ALFWORLD"}
    for name, data in worlds.items():
        for prompt in ("transcript", "paper"):
            rows = _rows(name, data, prompt)
            result[f"{name}, {prompt}"] = _shares(rows) | ({"timed": _timed(rows)} if name == "household" else {})
            print(name, prompt, json.dumps(result[f"{name}, {prompt}"]), flush=True)
    files.write_json(given.result, result)


def _rows(name: str, data: Path | None, prompt: str) -> list[StepRow]:
    world = envs.load(name, data, {})
    split = world.splits()[0]
    mixed = Mixed(ExpertPolicy(world), RandomPolicy())
    episodes = plan_groups(world, split, 1, GROUPS, SIZE, 0)
    heard = list(Rollout(world, mixed, max_steps=STEPS).play(episodes[:SIZE]))
    encoder = Encoder(small_tokenizer(_texts(heard), 4096), TEMPLATES[prompt])
    played = Rollout(world, Speaker(mixed, encoder), batch_size=128, max_steps=STEPS).play(episodes)
    trajectories = sorted(played, key=lambda trajectory: trajectory.id)
    return to_rows(trajectories, noise.encoder(encoder.tokenizer, world.family), last_answer=world.family != "shop")


def _texts(trajectories: Sequence[Trajectory]) -> list[str]:
    return [text for t in trajectories for step in t.steps for text in (step.observation, step.action)]


def _shares(rows: Sequence[StepRow]) -> dict[str, Any]:
    """Of both passes: the share of padding among the tokens read, at several budgets."""
    lengths = [len(row.prompt) + len(row.response) + len(row.continuation) for row in rows]
    parts = mini_batches(rows, ROWS, torch.Generator().manual_seed(0))
    update = [token_sequences(rows, part, [True] * len(rows)) for part in parts]
    scores = [token_sequences(rows, range(len(rows)), None)]
    return {
        "rows": len(rows),
        "tokens a row": statistics.mean(lengths),
        "sequences": sum(map(len, update)),
        "tokens a sequence": statistics.mean(len(s.tokens) for part in update for s in part),
        "update": {budget: _padding(update, budget) for budget in BUDGETS},
        "log-probs": {budget: _padding(scores, budget) for budget in BUDGETS},
    }


def _padding(passes: Sequence[Sequence[TokenSequence]], budget: int) -> float:
    batches = [batch for sequences in passes for batch in micro_batches(sequences, budget)]
    read = sum(len(batch) * len(batch[0].tokens) for batch in batches)
    return 1 - sum(len(sequence.tokens) for batch in batches for sequence in batch) / read


def _timed(rows: Sequence[StepRow]) -> dict[str, Any]:
    """Seconds of the gradient of one mini-batch, or of its beginning, padded and packed; the smallest of two."""
    chosen = mini_batches(rows, ROWS, torch.Generator().manual_seed(0))[0]
    while sum(len(s.tokens) for s in token_sequences(rows, chosen, [True] * len(rows))) > MOST_TOKENS:
        chosen = chosen[: len(chosen) // 2]
    experience = Experience(
        rows,
        advantages=torch.randn(action_starts(rows)[-1], generator=torch.Generator().manual_seed(0)),
        world_weights=torch.full((len(rows),), 1 / len(rows)),
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = Accelerator(cpu=device == "cpu", mixed_precision="bf16" if device == "cuda" else "no")
    torch.manual_seed(0)
    sizes = SIZES["nano"] | {"max_position_embeddings": 8192}
    lm = LlamaForCausalLM(LlamaConfig(vocab_size=4096, tie_word_embeddings=True, **sizes)).to(device)
    read_packed(lm)
    learner = accelerator.prepare(wrap(lm, LearnerConfig()))
    now = time.process_time if device == "cpu" else time.perf_counter  # other work may share the processor
    seconds: dict[bool, list[float]] = {False: [], True: []}
    losses: dict[bool, float] = {}
    for _ in range(2):
        for packing in seconds:
            config = UpdateConfig(batch_tokens=BUDGETS[1], packing=packing, kl=0.0, entropy=0.0)
            lm.zero_grad()
            started = now()
            losses[packing] = gradient(learner, experience, chosen, config, accelerator)["loss"]
            if device == "cuda":
                torch.cuda.synchronize()
            seconds[packing].append(now() - started)
    sequences = token_sequences(rows, chosen, [True] * len(rows))
    return {
        "device": device,
        "rows": len(chosen),
        "tokens": sum(len(sequence.tokens) for sequence in sequences),
        "padding": _padding([sequences], BUDGETS[1]),
        "padded": min(seconds[False]),
        "packed": min(seconds[True]),
        "losses apart": abs(losses[True] - losses[False]),
    }


if __name__ == "__main__":
    main()
