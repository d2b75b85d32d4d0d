"""Where a rollout of transcripts spends its time on a GPU, and what decoding attention costs in other ways.

python experiments/transcript_rollouts.py MODEL GAMES RESULT.json

MODEL is a folder with a config and a tokenizer: weights are drawn, so responses have their longest length. 128 episodes
of 30 steps of ALFWorld, eight of each game: two to warm up, two as they are, one with the device awaited around each
part. `--scale tiny` rehearses it on a CPU, without attention.
"""

import argparse
import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from worldline import envs, files, policies
from worldline.policies import PolicyConfig
from worldline.policies.language_model.in_place import InPlaceSampler
from worldline.policies.language_model.prefix_cache import PrefixCache
from worldline.policies.language_model.stepper import TokenStepper
from worldline.rollout import Episode, Rollout
from worldline.types import Policy, World, derive_seed

GROUP, TOKENS = 8, 16
PARTS = {
    "reading": (PrefixCache, "read"),
    "of it what follows a cached part": (PrefixCache, "_go_on"),
    "responding": (InPlaceSampler, "respond_behind"),
    "of it steps": (TokenStepper, "step"),
}
TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16}  # fmt: skip


def rollouts(model: Path, games: Path, device: str, tiny: bool) -> dict[str, Any]:
    """The seconds of rollouts, of their parts, and the memory they took."""
    world = envs.load("alfworld", games, {"max_steps": 3 if tiny else 30})
    episodes = 8 if tiny else 128
    with TemporaryDirectory() as folder:
        config = AutoConfig.from_pretrained(model)
        for name, value in TINY.items() if tiny else ():
            setattr(config, name, value)
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
        settings = PolicyConfig(
            prompt="transcript",
            dtype="bfloat16" if device == "cuda" else "float32",
            max_new_tokens=TOKENS,
            batch_tokens=262144,
            cache_gib=5,
        )
        policy = policies.load(f"hf:{folder}", world, settings)
    rows = [played(world, policy, episodes, attempt) for attempt in range(4)]
    content: dict[str, Any] = {"warming up": rows[:2], "as they are": rows[2:]}
    if device == "cuda":
        content["gib"] = {
            "allocated": torch.cuda.max_memory_allocated() / 2**30,
            "reserved": torch.cuda.max_memory_reserved() / 2**30,
        }
        seconds = awaited()
        content["device awaited around each part"] = played(world, policy, episodes, 4)
        content["seconds of the parts"] = dict(seconds)
    return content


def played(world: World, policy: Policy, count: int, attempt: int) -> dict[str, float]:
    """One rollout."""
    tasks = [world.get_task("valid_seen", number // GROUP) for number in range(count)]
    seeds = [derive_seed(attempt, "transcripts", number) for number in range(count)]
    wanted = [Episode(f"{attempt}-{n}", tasks[n], "valid_seen", seeds[n]) for n in range(count)]
    begun = time.perf_counter()
    done = list(Rollout(world, policy, batch_size=count).play(wanted))
    steps = [step for episode in done for step in episode.steps]
    tokens = sum(len(step.token_ids or ()) for step in steps)
    return {"seconds": time.perf_counter() - begun, "steps": len(steps), "tokens": tokens}


def awaited() -> defaultdict[str, float]:
    """Wrap each of PARTS, for the rest of this process; what they take is added up here."""
    seconds: defaultdict[str, float] = defaultdict(float)

    def wrapped(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            torch.cuda.synchronize()
            begun = time.perf_counter()
            result = function(*given, **named)
            torch.cuda.synchronize()
            seconds[part] += time.perf_counter() - begun
            return result

        return timed

    for part, (owner, name) in PARTS.items():
        setattr(owner, name, wrapped(part, getattr(owner, name)))
    return seconds


def attention(rows: int, length: int, layers: int = 30, heads: int = 3, shared: int = 3, size: int = 64) -> Any:
    """Milliseconds of one more token's attention in all layers, recorded: the masked kernel in use, and two others."""
    like: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    cache = torch.randn(layers, 2, rows, heads, length, size, **like)
    query = torch.randn(rows, heads, shared, size, **like)
    used = torch.randint(length // 2, length, (rows,), device="cuda")
    hidden = (torch.arange(length, device="cuda") >= used[:, None])[:, None, None]
    mask = torch.zeros(rows, 1, 1, length, **like).masked_fill_(hidden, -torch.inf)
    ends = torch.arange(rows * heads + 1, device="cuda", dtype=torch.int32)
    lengths = used.to(torch.int32).repeat_interleave(heads)

    def masked(keys: torch.Tensor, values: torch.Tensor) -> None:
        F.scaled_dot_product_attention(query, keys, values, mask.expand(-1, -1, shared, -1))

    def products(keys: torch.Tensor, values: torch.Tensor) -> None:
        torch.softmax(query * size**-0.5 @ keys.transpose(-1, -2) + mask, -1) @ values

    def flash(keys: torch.Tensor, values: torch.Tensor) -> None:
        flat = (query.reshape(-1, 1, size), keys.reshape(-1, 1, size), values.reshape(-1, 1, size))
        bounds = ends * shared, ends * length, shared, length
        torch.ops.aten._flash_attention_forward(*flat, *bounds, 0.0, False, False, seqused_k=lengths)

    return {
        way.__name__: _recorded(lambda way=way: [way(*layer) for layer in cache]) for way in (masked, products, flash)
    }


def _recorded(work: Callable[[], object], times: int = 20) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    begun.record()
    for _ in range(times):
        graph.replay()
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended)) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="folder of a config and a tokenizer")
    parser.add_argument("games", type=Path, help="folder of the games of ALFWorld")
    parser.add_argument("result", type=Path, help="the JSON to write")
    parser.add_argument("--scale", choices=("full", "tiny"), default="full", help="tiny: a rehearsal")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    content = {"rollouts": rollouts(given.model, given.games, device, given.scale == "tiny")}
    if device == "cuda":
        sizes = ((128, 640), (128, 1024), (280, 1024), (128, 2048))
        content["attention"] = {f"{rows} rows, {length} places": attention(rows, length) for rows, length in sizes}
    files.write_json(
        given.result, {"command": "python experiments/transcript_rollouts.py", "torch": torch.__version__, **content}
    )
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
