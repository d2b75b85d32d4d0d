"""What reading on token by token costs on a GPU: python experiments/decoding.py CONFIG > RESULT.json

CONFIG is the folder of a model's config.json (SmolLM2-135M in the committed result); the weights are random, which
changes nothing about the time. 704 prompts of 350 to 400 tokens, 16 tokens each; the first time at lengths never met
before, then at lengths met before.
"""

import json
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from worldline.policies.language_model import attention, decoding, forward
from worldline.policies.language_model.decoding import generate

ROWS, LENGTH, TOKENS, NEVER = 704, 400, 16, 10**9
KINDS = {
    "transformers' attention": ("sdpa", NEVER),
    "keys not spread out": (attention.NAME, NEVER),
    "the same, steps recorded": (attention.NAME, decoding.LEAST),
}


def main(folder: str) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).to("cuda", torch.bfloat16).eval()
    prompts = [row[at % 50 :] for at, row in enumerate(torch.randint(5, 1000, (ROWS, LENGTH)).tolist())]
    rows = []
    for name, (kind, least) in KINDS.items():
        model.set_attn_implementation(kind)
        decoding.LEAST = least
        rows += [
            {"how": name, "lengths": met, "seconds": _seconds(model, prompts)}
            for met in ("new lengths", "lengths met before")
        ]
    device = torch.cuda.get_device_name()
    print(json.dumps({"command": "python experiments/decoding.py CONFIG", "device": device, "rows": rows}, indent=1))


def _seconds(model: forward.Model, prompts: list[list[int]]) -> float:
    with torch.inference_mode():
        prefix = forward.read(model, prompts)
        torch.cuda.synchronize()
        started = time.perf_counter()
        generate(model, prefix, list(range(ROWS)), stops=set(), max_new_tokens=TOKENS, temperature=1.0)
        torch.cuda.synchronize()
        return time.perf_counter() - started


if __name__ == "__main__":
    main(sys.argv[1])
