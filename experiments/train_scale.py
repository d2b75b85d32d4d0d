"""What ten updates of GRPO + PaW cost on one GPU: python experiments/train_scale.py RESULT.json [--scale tiny]

A model of Qwen2.5-1.5B's shape with random weights (tied embeddings, 151,936 tokens) and a small BPE tokenizer of the
household's words, both made on the spot: nothing is downloaded. It trains in `household` once with LoRA and once with
all weights. Random weights say nothing that is an action, so rewards and advantages are 0 and the world term is all
there is to learn: times and memory are those of a run, its figures of success are not. No checkpoint is written.
`--scale tiny` rehearses the same on a CPU.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from worldline import envs, files
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train

UPDATES, UNWARMED = 10, 2
SHAPES: dict[str, dict[str, int]] = {
    "1.5b": {
        "vocab_size": 151936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
    },
    "tiny": {
        "vocab_size": 4096,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 4096,
    },
}
SIZES = {"1.5b": {"groups": 4, "group_size": 8, "max_steps": 6}, "tiny": {"groups": 2, "group_size": 2, "max_steps": 2}}


class Done(Exception):  # noqa: N818 - no error
    """All updates are made: what would follow is a checkpoint."""


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("result", type=Path)
    words.add_argument("--scale", choices=sorted(SHAPES), default="1.5b")
    given = words.parse_args()
    gpu = torch.cuda.is_available()
    result: dict[str, Any] = {
        "command": f"python experiments/train_scale.py RESULT.json --scale {given.scale}",
        "device": torch.cuda.get_device_name() if gpu else "cpu",
        "torch": torch.__version__,
        "shape": SHAPES[given.scale],
        "sizes": SIZES[given.scale] | {"updates": UPDATES, "max_new_tokens": 16},
    }
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result["parameters"] = _make_model(Path(folder) / "model", SHAPES[given.scale], "cuda" if gpu else "cpu")
        result["seconds_to_make_the_model"] = time.perf_counter() - started
        result["lora"] = (
            _measured(Path(folder), given.scale, lora=16)
            if find_spec("peft")
            else {"skipped": "peft is not installed here: no LoRA"}
        )
        files.write_json(given.result, result)  # what there is, should the larger run fail
        result["full"] = _measured(Path(folder), given.scale, lora=0)
    files.write_json(given.result, result)
    print(json.dumps(result, indent=1))


def _make_model(folder: Path, shape: dict[str, int], device: str) -> int:
    """The number of its parameters."""
    tokenizer = _tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    with torch.device(device):
        model = Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **shape, **ends))
    count = sum(weight.numel() for weight in model.parameters())
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    del model
    _clear()
    return count


def _tokenizer() -> PreTrainedTokenizerFast:
    """Byte-pair encoding of what the household says at its first tasks."""
    world = envs.load("household", None, {})
    split = world.splits()[0]
    texts = []
    for index in range(40):
        text, info = world.make().reset(seed=index, task=world.get_task(split, index))
        texts += [text, info.get("goal", ""), *(info.get("admissible") or ())]
    bytes_first = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoding = Tokenizer(models.BPE())
    encoding.pre_tokenizer, encoding.decoder = bytes_first, decoders.ByteLevel()
    special = ["<pad>", "<eos>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, initial_alphabet=bytes_first.alphabet(), show_progress=False
    )
    encoding.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=encoding, pad_token="<pad>", eos_token="<eos>")


def _measured(folder: Path, scale: str, *, lora: int) -> dict[str, Any]:
    """Ten updates; medians leave out the first ones, which also warm up."""
    lines: list[dict[str, Any]] = []

    def watch(metrics: dict[str, Any]) -> None:
        lines.append(metrics)
        if metrics["update"] == UPDATES:
            raise Done

    settings = SIZES[scale] | {
        "env": "household",
        "model": str(folder / "model"),
        "out": folder / f"run-{lora}",
        "updates": UPDATES,
        "checkpoint_every": UPDATES,
        "precision": "bf16" if torch.cuda.is_available() else "fp32",  # a CPU may have to emulate bf16
        "rollout": {"dtype": "bfloat16" if torch.cuda.is_available() else "float32", "max_new_tokens": 16},
        "evaluation": {"every": 0},
        "learner": {"lora": lora, "gradient_checkpointing": True},
    }
    started = time.perf_counter()
    with suppress(Done):
        train(TrainConfig.model_validate(settings), watch)
    seconds = time.perf_counter() - started
    _clear()
    phases = ("seconds_rollout", "seconds_logprob", "seconds_selection", "seconds_update")
    warm = lines[UNWARMED:]
    generated = [line["rows"] * line["response_tokens"] for line in warm]
    return {
        "updates": len(lines),
        "peak_gib": max(line["peak_gib"] for line in lines),
        "peak_is_of": "the GPU" if torch.cuda.is_available() else "the process, in main memory",
        "rollout_tokens_per_second": sum(generated) / sum(line["seconds_rollout"] for line in warm),
        "update_tokens_per_second": sum(line["update_tokens"] for line in warm)
        / sum(line["seconds_update"] for line in warm),
        "seconds_per_update": statistics.median(sum(line[phase] for phase in phases) for line in warm),
        "medians": {phase: statistics.median(line[phase] for line in warm) for phase in phases},
        "rows_per_update": statistics.mean(line["rows"] for line in warm),
        "tokens_per_update": statistics.mean(line["update_tokens"] for line in warm),
        "wm_loss": [line["wm_loss"] for line in lines],
        "seconds_with_loading": seconds,
    }


def _clear() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
