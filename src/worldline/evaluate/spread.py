"""`evaluate --engine ray`: what candidates say and do is computed by Ray's workers, then judged here.

Each task evaluates one candidate alone, at one epsilon if there is a world model, for the sake of what this leaves in
the cache: log-probs and imagined values, kept by content. The evaluation itself then computes nothing that is there, so
its result is that of the local engine. A task that is done again finds what it had done. Audit, certificate, refits
and intervals, which compare candidates with each other, stay in this process.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from worldline.evaluate.candidates import ELSEWHERE, Watch
from worldline.evaluate.settings import EvaluateConfig
from worldline.ray_pool import ray_pool

_DURING = "scoring by Ray"


@contextmanager
def spread(config: EvaluateConfig, evaluate: Callable[[EvaluateConfig], Any], watch: Watch) -> Iterator[EvaluateConfig]:
    """Have Ray fill the cache; the settings with which the evaluation goes on. A local engine changes nothing."""
    if config.engine == "local":
        yield config
        return
    with ExitStack() as end:
        cache = config.cache_folder
        if cache is None:
            cache = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="worldline-cache-")))
        shares = parts(config, cache)
        with ray_pool(config.engine, config.workers, config.gpus) as pool, pool.failures():
            futures = [pool.submit(_fill, evaluate, share) for share in shares]
            for done, future in enumerate(futures, start=1):
                future.result()
                watch(_DURING, done, len(futures))
        yield config.model_copy(update={"cache": cache})


def parts(config: EvaluateConfig, cache: Path) -> list[EvaluateConfig]:
    """One evaluation for each candidate that somebody has to ask: not for what a file or the log itself says."""
    own = {"cache": cache.absolute(), "out": None, "engine": "local", "jobs": 1, "certificate": False, "truth": None}
    quick: dict[str, Any] = {"by": "", "sensitivity": 0, "bootstrap": 100, "logger": ()}
    if config.world_model is None:
        quick["estimators"] = ("is",)  # asks for all log-probs that any estimator wants
    entries = [entry for entry in config.policy if ":" in entry and f"={ELSEWHERE}" not in entry]
    epsilons = [(epsilon,) for epsilon in config.epsilon] if config.world_model else [config.epsilon]
    return [
        config.model_copy(update={**own, **quick, "policy": (entry,), "epsilon": epsilon})
        for entry in entries
        for epsilon in epsilons
    ]


def _fill(evaluate: Callable[[EvaluateConfig], Any], config: EvaluateConfig) -> None:
    evaluate(config)  # what it returns stays there: the cache has what is wanted
