"""The comparison of `bench train`: what its figures mean, and that nothing is done twice."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from worldline.bench import train as bench
from worldline.bench.train_plans import PLANS, TrainPlan, train_runs
from worldline.config import validate
from worldline.paw.world import WorldConfig
from worldline.sft.small import SIZES
from worldline.types import InputError, WorldlineError


def row(variant: str, seed: int, success: float) -> dict[str, Any]:
    return {"variant": variant, "seed": seed, "success": success}


def test_gains_are_paired_by_seed() -> None:
    rows = [row("grpo", 0, 0.2), row("grpo", 1, 0.6), row("grpo+paw", 0, 0.3), row("grpo+paw", 1, 0.9)]
    figures = bench.compared([*rows, row("grpo+paw", 2, 0.0)])  # nothing to compare the third seed with
    assert figures["grpo"] == pytest.approx(0.4)
    low, high = stats.t.interval(0.95, 1, loc=0.2, scale=stats.sem([0.1, 0.3]))
    assert figures["grpo+paw gain"] == pytest.approx(0.2)
    assert (figures["grpo+paw gain low"], figures["grpo+paw gain high"]) == pytest.approx((low, high))


def test_one_seed_has_a_gain_and_no_interval() -> None:
    figures = bench.compared([row("grpo", 0, 0.2), row("grpo+paw", 0, 0.3)])
    assert figures["grpo+paw gain"] == pytest.approx(0.1)
    assert math.isnan(figures["grpo+paw gain low"])


def test_the_runs_are_those_of_the_paper() -> None:
    main = list(train_runs("household", "main", 5))
    assert sum(run.variant in ("grpo", "grpo+paw", "gigpo", "gigpo+paw") for run in main) == 20
    assert sum(run.variant.startswith(("ppo", "rloo")) for run in main) == 8
    assert len({run.name for run in main}) == len(main)
    ablated = [run.name for run in train_runs("household", "ablate", 1)]
    assert "grpo-paw-lambda1-0" in ablated and "grpo-paw-0" in ablated
    assert [run.variant for run in train_runs("shop", "main", 1)] == ["grpo", "grpo+paw"]


def test_what_is_beyond_the_paper_has_seeds_of_its_own() -> None:
    runs = list(train_runs("household", "beyond", 2))
    arms = [
        "grpo",
        "grpo+paw",
        *(f"grpo+paw {name}" for name in ("failed", "novel", "alone 5", "schedule", "horizon 3")),
    ]
    assert [(run.variant, run.seed) for run in runs] == [(arm, seed) for seed in (20, 21) for arm in arms]
    others = [run for case in ("main", "sparse", "ablate") for run in train_runs("household", case, 10)]
    assert {run.seed for run in others} == set(range(10))
    changes = {run.variant: validate(WorldConfig, dict(run.recipe.get("world", {}))) for run in runs}
    assert changes["grpo+paw"] == WorldConfig() and runs[1].recipe["wm"] == "paw"
    assert changes["grpo+paw failed"] == WorldConfig(coefficient="failed")
    assert changes["grpo+paw novel"] == WorldConfig(novel=True)
    assert changes["grpo+paw alone 5"] == WorldConfig(alone=5)
    assert changes["grpo+paw schedule"] == WorldConfig(coefficient="schedule", start=1.0, end=0.0)
    assert changes["grpo+paw horizon 3"] == WorldConfig(horizon=3)
    assert runs[4].name == "grpo-paw-alone-5-20"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bench.TrainBenchConfig:
    """The household bench, as small as it gets."""
    plan = PLANS["household"]
    recipe = {
        **plan.recipe,
        "updates": 2,
        "groups": 2,
        "group_size": 2,
        "max_steps": 2,
        "evaluation": {"every": 1, "episodes": 4, "temperature": 1.0},
        "rollout": {"max_new_tokens": 4},
    }
    clone = {"episodes": 4, "epochs": 1, "checkpoints": 2, "vocabulary": 300}
    tiny = TrainPlan({"level": "tiny"}, clone, recipe, {"grpo": 1}, start=(0.0, 1.0))
    monkeypatch.setitem(PLANS, "household", tiny)
    monkeypatch.setitem(SIZES, "nano", SIZES["nano"] | {"hidden_size": 32, "num_hidden_layers": 1})
    return bench.TrainBenchConfig(env="household", seeds=1, out=tmp_path / "bench", final=4, device="cpu")


def test_a_bench_goes_on_where_it_was(
    small: bench.TrainBenchConfig, monkeypatch: pytest.MonkeyPatch, fresh_accelerator: None
) -> None:
    first = bench.run(small.model_copy(update={"only": ("grpo",)}))
    cloned = json.loads((small.out / "household" / "clone" / "config.json").read_text())
    assert cloned["device"] == "cpu", "not the default"
    assert [row["variant"] for row in first.rows] == ["grpo"]
    assert [update for update, _ in first.rows[0]["curve"]] == [0, 1, 2]
    assert 0 <= first.rows[0]["low"] <= first.rows[0]["success"] <= first.rows[0]["high"] <= 1
    trained: list[str] = []
    real = bench.train
    monkeypatch.setattr(bench, "train", lambda config: trained.append(config.wm) or real(config))
    monkeypatch.setattr(bench, "sft", lambda config: pytest.fail("the clone was there"))
    whole = bench.run(small)
    assert trained == ["paw"]
    assert whole.rows[0] == first.rows[0] and whole.rows[1]["variant"] == "grpo+paw"
    assert "grpo+paw gain" in whole.figures
    with pytest.raises(InputError, match="was made with other settings"):
        bench.run(small.model_copy(update={"updates": 3}))


def test_another_start_has_a_clone_and_runs_of_its_own(small: bench.TrainBenchConfig, fresh_accelerator: None) -> None:
    other = small.model_copy(update={"taught": "action", "only": ("grpo",), "start": (0.0, 1.0)})
    bench.run(other)
    taught = json.loads((small.out / "household" / "clone-action" / "config.json").read_text())
    assert (taught["target"], taught["reading"]) == ("action", 0.01)
    assert (small.out / "household" / "runs-action" / "grpo-0" / "result.json").is_file()
    assert not (small.out / "household" / "clone").exists()


def test_a_start_that_is_not_weak_enough_is_refused(
    small: bench.TrainBenchConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_play", lambda *args, **kwargs: {"success": 0.5})
    monkeypatch.setitem(PLANS, "household", TrainPlan(**{**vars(PLANS["household"]), "start": (0.1, 0.3)}))
    with pytest.raises(WorldlineError, match=r"no clone with a success between 0.1 and 0.3: .*0.5"):
        bench.run(small)
