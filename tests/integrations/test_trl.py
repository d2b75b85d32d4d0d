"""PaW inside TRL: the loss against brute force, and one real step of the trainer."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed: pip install 'worldline[trl]'")

from worldline.integrations.trl import PaWTrainer, turns, world_term


def test_turns_are_counted_from_the_first_action() -> None:
    own = torch.tensor([[0, 1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1, 1]]).bool()
    assert turns(own).tolist() == [[-1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 2]]


def test_the_loss_is_the_mean_of_means_of_the_chosen_transitions() -> None:
    generator = torch.Generator().manual_seed(0)
    own = torch.tensor([[1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]).bool()
    world = torch.tensor([[0, 0, 1, 1, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0]]).bool()
    logprobs = -3 * torch.rand(3, 8, generator=generator)
    entropies = torch.rand(3, 8, generator=generator)
    coefficients = torch.tensor([0.5, 1.0, 0.3])
    spans = [(0, [0, 1], [2, 3]), (0, [4], [5, 6]), (1, [0], [1, 2]), (1, [3, 4], [5, 6, 7])]
    ranked = sorted(spans, key=lambda span: -float(entropies[span[0], span[1]].mean()))
    chosen = ranked[:2]  # half of the four transitions that were answered
    expected = 0.0
    for episode in range(3):
        losses = []
        for where, _, answer in chosen:
            if where == episode:
                p = logprobs[where, answer].exp()
                losses.append(float(((p <= 0.2) * (1 - p)).sum()) / len(answer))
        expected += float(coefficients[episode]) * (sum(losses) / len(losses) if losses else 0.0) / 3
    total, logs = world_term(logprobs, entropies, own, world, coefficients, alpha=0.5)
    assert float(total) == pytest.approx(expected, abs=1e-6)
    assert expected > 0 and 0 < logs["clipped_tokens"] < 1


def _rollout(prompts: list[Any], trainer: PaWTrainer) -> dict[str, Any]:
    """Two actions, each answered by the world; no generation is needed to see the losses at work."""
    count = len(prompts)
    action, answer = [5, 2], [7, 8, 9, 2]
    return {
        "prompt_ids": [[4, 3] for _ in range(count)],
        "completion_ids": [action + answer + [6, 2] + answer for _ in range(count)],
        "logprobs": [[-1.0] * 12 for _ in range(count)],
        "env_mask": [[1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0] for _ in range(count)],
    }


def test_a_real_step_learns_what_the_world_answers(start: Path, tmp_path: Path, fresh_accelerator: None) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig

    model = AutoModelForCausalLM.from_pretrained(start)
    arguments = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=16,
        max_steps=3,
        learning_rate=5e-3,
        beta=0.0,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        logging_steps=1,
    )
    trainer = PaWTrainer(
        model=model,
        processing_class=AutoTokenizer.from_pretrained(start),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["Task: count to 1"] * 8}),
        reward_funcs=[lambda completions, **kwargs: [0.0] * len(completions)],  # nothing for the policy to learn
        rollout_func=_rollout,
        rho=1.0,
    )
    trainer.train()
    logged = [line for line in trainer.state.log_history if "paw/world_loss" in line]
    assert len(logged) == 3
    assert logged[0]["paw/lambda"] == 1.0
    assert logged[-1]["paw/world_loss"] < logged[0]["paw/world_loss"]
