"""What `bench paw` says PaW costs: the arithmetic of its shares, and a run on the counting world."""

from pathlib import Path

import pytest

from worldline.bench import paw as bench
from worldline.types import InputError


def line(
    rollout: float, logprob: float, update: float, peak: float, selection: float | None = None
) -> dict[str, float]:
    figures = {"seconds_rollout": rollout, "seconds_logprob": logprob, "seconds_update": update, "peak_gib": peak}
    figures |= {"rows": 40, "response_tokens": 6.0}
    return figures if selection is None else figures | {"seconds_selection": selection}


def test_shares_are_of_the_whole_update() -> None:
    plain = [line(8.0, 1.0, 1.0, 10.0), line(8.0, 1.0, 1.0, 10.0)]
    paw = [line(8.0, 1.0, 1.1, 10.2, selection=0.1), line(8.0, 1.0, 1.1, 10.2, selection=0.1)]
    shares = bench.shares(plain, paw)
    assert shares["extra_time_whole"] == pytest.approx(0.02)  # 10.2 seconds against 10
    assert shares["extra_time_as_played"] == pytest.approx(0.02)
    assert shares["extra_time_update_only"] == pytest.approx(0.2)
    assert shares["extra_peak_memory"] == pytest.approx(0.02)
    assert shares["rollout_share"] == pytest.approx(0.8)
    assert shares["rollout_tokens_per_second"] == pytest.approx(30)  # 240 tokens in 8 seconds


def test_a_slow_rollout_of_one_kind_is_not_paws_fault() -> None:
    shares = bench.shares([line(8.0, 1.0, 1.0, 1.0)], [line(10.0, 1.0, 1.0, 1.0, selection=0.0)])
    assert shares["extra_time_whole"] == pytest.approx(0.0)
    assert shares["extra_time_as_played"] == pytest.approx(0.2)


def test_it_runs_both_ways_and_against_cross_entropy(
    start: Path, monkeypatch: pytest.MonkeyPatch, fresh_accelerator: None
) -> None:
    monkeypatch.setattr(
        bench,
        "_updates",
        lambda settings, model, folder, wm, count: bench._trained(
            bench._recipe(settings, model, folder / "run", wm, count)
        ),
    )
    settings = bench.PawBenchConfig(
        env="counting:CountingWorld",
        model=f"hf:{start}",
        prompt="transcript",
        groups=2,
        group_size=2,
        max_steps=2,
        max_new_tokens=4,
        repeats=2,
    )
    measured = bench.run(settings)
    assert [row["wm"] for row in measured.rows] == ["off", "off", "paw", "paw"]
    assert {row["rows"] for row in measured.rows} == {measured.rows[0]["rows"]}  # both played the same episodes
    assert measured.figures["update_over_cross_entropy"] > 0


def test_a_model_without_its_kind_is_refused() -> None:
    with pytest.raises(InputError, match="give hf:PATH"):
        bench.run(bench.PawBenchConfig(model="smol"))
