"""How fast rollouts, updates and cloning are on one GPU: python experiments/rollouts.py RESULT.json [--scale tiny]

A model of SmolLM2-135M's shape with random weights and a small BPE tokenizer of the household's words is made on the
spot, cloned from 120 demonstrations (`sft`, as in the committed figures of `bench paw`), and put through `bench paw` at
that setting. Nothing is downloaded. `--clone FOLDER` takes a clone that another run has made, so that two versions of
the code are measured on the same weights. `--scale tiny` rehearses the same on a CPU.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from train_scale import _tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from worldline import files
from worldline.bench import paw
from worldline.sft import SftConfig, sft

SHAPES: dict[str, dict[str, int]] = {
    "135m": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
    },
    "tiny": {
        "vocab_size": 4096,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    },
}
SIZES: dict[str, dict[str, Any]] = {
    "135m": {"episodes": 120, "epochs": 2, "groups": 8, "max_steps": 6, "repeats": 5, "precision": "bf16"},
    "tiny": {"episodes": 6, "epochs": 1, "groups": 2, "max_steps": 2, "repeats": 1, "precision": "fp32"},
}
OPTIONS = {"level": "small"}
RATE = 1e-3
"""Of the cloning: the weights are random."""


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("result", type=Path)
    words.add_argument("--scale", choices=sorted(SHAPES), default="135m")
    words.add_argument("--clone", type=Path)
    words.add_argument("--repeats", type=int)
    given = words.parse_args()
    size = SIZES[given.scale] | ({"repeats": given.repeats} if given.repeats else {})
    result: dict[str, Any] = {
        "command": f"python experiments/rollouts.py RESULT.json --scale {given.scale}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "shape": SHAPES[given.scale],
        "sizes": size,
    }
    with tempfile.TemporaryDirectory() as folder:
        clone = given.clone or Path(folder) / "clone"
        if not (clone / "model").exists():
            _make_model(Path(folder) / "base", SHAPES[given.scale])
            result["sft"] = _cloned(Path(folder) / "base", clone, size)
            files.write_json(given.result, result)
            print(json.dumps(result["sft"]))
        started = time.perf_counter()
        measured = paw.run(
            paw.PawBenchConfig(
                model=f"hf:{clone / 'model'}",
                options=OPTIONS,
                prompt="plain",
                **{name: size[name] for name in ("groups", "max_steps", "repeats", "precision")},
            )
        )
        result["bench_paw"] = {
            "seconds": time.perf_counter() - started,
            "figures": measured.figures,
            "rows": measured.rows,
        }
    files.write_json(given.result, result)
    print(json.dumps(result["bench_paw"]["figures"], indent=1))


def _make_model(folder: Path, shape: dict[str, int]) -> None:
    tokenizer = _tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **shape, **ends)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _cloned(base: Path, out: Path, size: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the whole run; tokens per second of its steps by their median, which leaves checkpoints out."""
    steps: list[tuple[float, int]] = []
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    cloned = sft(
        SftConfig(
            source="household",
            options=OPTIONS,
            model=str(base),
            prompt="plain",
            episodes=size["episodes"],
            epochs=size["epochs"],
            learning_rate=RATE,
            checkpoints=1,
            out=out,
        ),
        trained=lambda progress: steps.append((time.perf_counter(), progress.tokens)),
    )
    gc.collect()
    seconds = [after[0] - before[0] for before, after in zip(steps, steps[1:], strict=False)]
    tokens = [after[1] - before[1] for before, after in zip(steps, steps[1:], strict=False)]
    figures: dict[str, Any] = {
        "steps": len(steps),
        "tokens": cloned.progress.tokens,
        "loss": cloned.progress.loss,
        "seconds_whole": cloned.seconds,
        "seconds_of_steps": steps[-1][0] - steps[0][0],
        "seconds_a_step": statistics.median(seconds),
        "tokens_per_second": statistics.median(count / taken for count, taken in zip(tokens, seconds, strict=True)),
        "tokens_per_second_of_all_steps": sum(tokens) / sum(seconds),
        "tokens_per_second_whole": cloned.progress.tokens / cloned.seconds,
    }
    if torch.cuda.is_available():
        figures["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        figures["peak_reserved_gib"] = torch.cuda.max_memory_reserved() / 2**30
        torch.cuda.empty_cache()
    return figures


if __name__ == "__main__":
    main()
