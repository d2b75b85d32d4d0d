"""What reading on token by token costs on a GPU: python experiments/decoding.py CONFIG > RESULT.json

CONFIG is the folder of a model's config.json (SmolLM2-135M's shape in the committed result); the weights are random,
which changes nothing about the time. 704 prompts of 350 to 400 tokens, and 64 of 440 to 600; 16 tokens each, behind
prompts that have been read (growing caches), or with the reading (in place, at the first call, the second, which
records, and the fifth).
"""

import json
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from worldline.policies.language_model import attention
from worldline.policies.language_model.decoding import Sampling, generate
from worldline.policies.language_model.forward import Model, read
from worldline.policies.language_model.in_place import InPlaceSampler
from worldline.policies.language_model.stack import TransformersStack

BATCHES = {704: (350, 400), 64: (440, 600)}
HOW = Sampling(stops=(), most=16, temperature=1.0)


def main(folder: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_config(config).to(device, dtype).eval()
    attention.prepare(model)
    rows = []
    for count, (shortest, longest) in BATCHES.items():
        lengths = torch.randint(shortest, longest + 1, (count,)).tolist()
        prompts = [torch.randint(5, 1000, (length,)).tolist() for length in lengths]
        rows += [{"prompts": count, **row} for row in _measured(model, prompts)]
    name = torch.cuda.get_device_name() if device == "cuda" else device
    print(json.dumps({"command": "python experiments/decoding.py CONFIG", "device": name, "rows": rows}, indent=1))


def _measured(model: Model, prompts: list[list[int]]) -> list[dict[str, object]]:
    seeds = list(range(len(prompts)))
    with torch.inference_mode():
        reading = _seconds(lambda: read(model, prompts), 3)
        growing = _seconds(lambda: generate(model, read(model, prompts), seeds, HOW), 2)
        rows: list[dict[str, object]] = [
            {"how": "growing caches", "seconds_reading": reading[-1], "seconds_decoding": growing[-1] - reading[-1]}
        ]
        for name, own in (("transformers' layers in place", True), ("fused layers in place", False)):
            sampler = InPlaceSampler(model)
            if own:
                sampler._stack = TransformersStack(model)
            calls = _seconds(lambda sampler=sampler: sampler.respond(prompts, seeds, HOW), 5)
            reading = _seconds(lambda sampler=sampler: [reader.read_again() for reader in sampler._readers.values()], 3)
            stepper = next(iter(sampler._steppers.values()))

            def step(stepper: object = stepper) -> None:
                stepper._at.fill_(1)
                stepper._place.zero_()
                stepper.step()

            rows.append(
                {
                    "how": name,
                    "seconds_first_call": calls[0],
                    "seconds_second_call": calls[1],
                    "seconds_fifth_call": calls[4],
                    "seconds_reading": reading[-1],
                    "seconds_a_step": _seconds(step, 5)[-1],
                    "tokens_per_second": len(prompts) * HOW.most / calls[4],
                }
            )
    return rows


def _seconds(work: object, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        taken.append(time.perf_counter() - started)
    return taken


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
