"""`worldline <verb>`: finds the verb's module, reads its settings, runs it, prints the result.

Imports nothing heavy: a verb's module is loaded only when that verb is called, so `worldline --help` is instant.
"""

import importlib
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

VERBS = {
    "demo": "the whole loop on the embedded household world; no network, no GPU",
    "collect": "run a policy in an environment, write a log; also the online evaluation",
    "sft": "clone a log or an environment's expert into a causal language model",
    "train": "reinforcement learning (GRPO, GiGPO, RLOO, PPO) with world-model co-training",
    "fit": "fit a diffusion world model on a log",
    "evaluate": "value, interval and rank of policies from a log, per estimator",
    "report": "a run or an evaluation as one self-contained HTML file",
    "view": "browse runs, logs and imagined episodes in a local browser",
    "import": "other people's logs in",
    "export": "our logs out, as JSON lines",
    "bench": "the measured figures of the README, reproducible",
    "env": "versions, devices, extras: for a bug report",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code: 0 done, 1 the work failed, 2 bad input."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        from worldline import __version__

        print(f"worldline {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        return _fail("worldline", f"unknown verb '{verb}'{_nearest(verb)} (see worldline --help)", 2)
    return _run(verb, rest)


def _run(verb: str, words: list[str]) -> int:
    from worldline import config
    from worldline.types import WorldlineError

    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    try:
        if verb == "bench" and words[:1] in (["--help"], ["-h"]):
            from worldline.cli.bench import overview

            print(overview())
            return 0
        command = _command(verb, words)
        if verb == "bench":
            verb = f"bench {words.pop(0)}"
        if "--help" in words or "-h" in words:
            print(config.usage(command.Settings, f"worldline {verb}"))
            print("\n--json prints the result as JSON on stdout, and nothing else there.")
            return 0
        outcome = command.run(config.read(command.Settings, words))
        if as_json:
            print(json.dumps(_finite(outcome.data), ensure_ascii=False))
        else:
            outcome.show()
    except WorldlineError as error:
        return _fail(f"worldline {verb}", str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail(f"worldline {verb}", "interrupted; what was finished is kept", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _finite(value: Any) -> Any:
    """JSON has no NaN: an unknown number is null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _command(verb: str, words: list[str]) -> Any:
    """What has the verb's `Settings` and `run`: its module, or one bench of many."""
    module = importlib.import_module(f"worldline.cli.{'import_' if verb == 'import' else verb}")
    return module.choose(words) if verb == "bench" else module


def _fail(who: str, message: str, code: int) -> int:
    print(f"{who}: {' '.join(message.split())}", file=sys.stderr)
    return code


def _nearest(verb: str) -> str:
    import difflib

    close = difflib.get_close_matches(verb, VERBS, n=1)
    return f": did you mean '{close[0]}'?" if close else ""


def _help() -> str:
    lines = [
        "worldline: train language agents that understand their world, and know how good an agent is",
        "before it touches one.",
        "",
        "usage: worldline VERB [RECIPE.yaml] [--flag value ...] [--json]",
        "",
        *(f"  {verb:<10}{text}" for verb, text in VERBS.items()),
        "",
        "worldline VERB --help lists a verb's settings with examples. Start with: worldline demo",
    ]
    return "\n".join(lines)
