"""`fit` with each of its file system calls broken in turn: what is there is whole, and resuming gives the same."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file
from tiny_house import play, tiny_house

import faults
from worldline import files, store
from worldline.adwm import decoder, weights
from worldline.adwm import fit as module
from worldline.adwm.ensemble import Ensemble, Member
from worldline.adwm.fit import FitConfig, FitSettings, FittingLog, Watch, fit
from worldline.adwm.fitting import training
from worldline.adwm.model import PRESETS
from worldline.adwm.rivals.latent import Rivals
from worldline.kernel import gate, lists, outcome, wordings
from worldline.kernel.fitting import Stage
from worldline.types import InputError, Trajectory, WorldlineError

TINY = PRESETS["small"].model_copy(
    update={
        "buckets": 512,
        "width": 16,
        "layers": 0,
        "history_layers": 0,
        "heads": 2,
        "ff": 16,
        "encoder_hidden": 16,
        "latent": 8,
        "action": 4,
        "score_width": 8,
        "projector": (4, 1, 4),
        "head_width": 4,
        "inverse_width": 4,
        "diffusion_steps": 16,
    }
)


@pytest.fixture(scope="module")
def episodes() -> list[Trajectory]:
    """The shortest episodes of a good policy."""
    return sorted(play(tiny_house(), 0.1, 16, tasks=range(16)), key=len)[:9]


@pytest.fixture
def log(episodes: list[Trajectory], tmp_path: Path) -> Path:
    return extended(tmp_path / "log", episodes[:8])


def extended(folder: Path, episodes: Sequence[Trajectory]) -> Path:
    with store.StoreWriter(folder) as writer:
        for episode in episodes:
            writer.append(episode)
    return folder


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of a few thousand weights, few epochs of what is linear, and a log that is prepared once."""
    monkeypatch.setitem(PRESETS, "small", TINY)
    monkeypatch.setattr(training, "_SCORE_UPDATES", 1)
    monkeypatch.setattr(training, "_SCORE_EVERY", 1)
    monkeypatch.setattr(decoder, "_UPDATES", 1)
    _briefly(monkeypatch)
    monkeypatch.setattr(module, "measured_kernel", _once(module.measured_kernel))


def _briefly(patch: pytest.MonkeyPatch) -> None:
    """Two updates of every part of the kernel model, each of which may be the best."""
    for brief in (gate, lists, outcome, wordings):
        patch.setattr(brief, "_STEPS", 2)
    patch.setattr(gate, "_EVERY", 1)


def _once(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, done once for each log and settings, which are all that it reads."""
    done: dict[tuple[str, ...], Any] = {}

    def remembered(episodes: Sequence[Trajectory], config: FitConfig, jobs: int, stage: Stage) -> Any:
        settings = config.model_dump_json(include=set(FitSettings.model_fields))
        key = settings, *(episode.model_dump_json() for episode in episodes)
        if key not in done:
            done[key] = work(episodes, config, jobs, stage)
        return done[key]

    return remembered


def _begun_once(fit_member: Callable[..., Member]) -> Callable[..., Member]:
    """`fit_member`, computed once where it starts without a checkpoint: its rows are then repeated to `watch`."""
    done: dict[int, tuple[list[dict[str, Any]], Member]] = {}

    def remembered(log: FittingLog, index: int, watch: Watch, checkpoint: Path) -> Member:
        rows: list[dict[str, Any]] = []

        def noted(row: dict[str, Any]) -> None:
            rows.append(row)
            watch(row)

        if checkpoint.is_file():
            return fit_member(log, index, watch, checkpoint)
        if index not in done:
            done[index] = rows, fit_member(log, index, noted, checkpoint)
        else:
            for row in done[index][0]:
                watch(row)
        return done[index][1]

    return remembered


def config(log: Path, out: Path, **changes: Any) -> FitConfig:
    given = {"members": 1, "epochs": 2, "text_steps": 6, "rivals": False, "replayed_episodes": 0, "resume": True}
    return FitConfig(log=(log,), out=out, **(given | changes))


def content(out: Path) -> dict[str, Any]:
    """All that a finished fit leaves, but for what differs from run to run: seconds, and the names of shards."""
    names = sorted(path.name for path in out.iterdir())
    figures = {name: json.loads((out / name).read_text()) for name in ("figures.json", "horizon.json")}
    return figures | {"names": names, "metrics": metrics(out), "log": store.count(out / "log")} | member(out)


def member(out: Path) -> dict[str, Any]:
    """Every file of the member, the weights bit by bit; nothing if it is not there."""
    return {
        path.name: {name: weight.numpy().tobytes() for name, weight in load_file(path).items()}
        if path.suffix == ".safetensors"
        else path.read_text()
        for path in (out / "member-0").glob("*")
    }


def metrics(out: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in files.read_lines(out / "metrics.jsonl").whole]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_fit_is_whole_or_absent_and_resumes_to_the_same(
    log: Path, how: faults.How, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_everywhere(log, how, tmp_path, monkeypatch)


def test_a_broken_fit_of_a_sampled_log_resumes_to_the_same(
    episodes: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample says of what it is one before it is there."""
    many = [one.model_copy(update={"id": f"{one.id}-{copy}"}) for copy in range(3) for one in episodes[:8]]
    sampled = {"kernel_steps": 100, "epochs": 1}
    whole = _break_everywhere(extended(tmp_path / "many", many), "killed", tmp_path, monkeypatch, **sampled)
    assert "sample.json" in whole["names"]
    assert whole["log"] < 24


def _break_everywhere(
    log: Path, how: faults.How, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> dict[str, Any]:
    whole = tmp_path / "whole"
    fit(config(log, whole, **changes))
    made = content(whole)
    assert [row["epoch"] for row in made["metrics"]] == [1, 2][: changes.get("epochs", 2)]
    broken, begun_once = 0, _begun_once(FittingLog.fit_member)
    for state in faults.states_left(lambda out: fit(config(log, out, **changes)), tmp_path, how):
        left = state.path
        assert member(left) in ({}, member(whole))
        assert metrics(left) == made["metrics"][: len(metrics(left))]
        with monkeypatch.context() as resuming:  # not what is broken, which writes every checkpoint
            resuming.setattr(FittingLog, "fit_member", begun_once)
            fit(config(log, left, **changes))
        assert content(left) == made
        broken += state.calls
    assert broken > 30
    return made


def test_a_fit_killed_after_training_goes_on_from_there(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while the rivals are fitted: the epochs are not made again, and their rows are there once."""
    whole = fit(config(log, tmp_path / "whole", rivals=True, replayed_episodes=1))
    with monkeypatch.context() as patch:
        patch.setattr(Rivals, "fit", _killed)
        with pytest.raises(KeyboardInterrupt):
            fit(config(log, tmp_path / "cut", rivals=True, replayed_episodes=1))
    assert (tmp_path / "cut" / "training-0.pt").is_file()
    epochs: list[int] = []
    resumed = fit(
        config(log, tmp_path / "cut", rivals=True, replayed_episodes=1), lambda row: epochs.append(row["epoch"])
    )
    assert epochs == []
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    assert resumed.figures == pytest.approx(whole.figures, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_fit_of_the_kernel_is_whole_or_absent_too(
    log: Path, how: faults.How, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    _briefly(monkeypatch)
    alone = {"members": 0}

    def kernel(out: Path) -> dict[str, bytes]:
        path = out / "kernel" / "kernel.safetensors"
        return {n: w.numpy().tobytes() for n, w in load_file(path).items()} if path.parent.is_dir() else {}

    whole = tmp_path / "whole"
    fit(config(log, whole, **alone))
    made = kernel(whole)
    assert made
    broken, refitted_once = 0, _once(module.measured_kernel)  # resumed the first time, it is fitted anew
    for state in faults.states_left(lambda out: fit(config(log, out, **alone)), tmp_path, how):
        left = state.path
        assert kernel(left) in ({}, made)
        with monkeypatch.context() as resuming:
            resuming.setattr(module, "measured_kernel", refitted_once)
            fit(config(log, left, **alone))
        assert kernel(left) == made
        assert (left / "figures.json").read_text() == (whole / "figures.json").read_text()
        broken += state.calls
    assert broken > 10


def _killed(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_log_that_grew_is_refused(log: Path, episodes: list[Trajectory], tmp_path: Path) -> None:
    """Else the folds are drawn anew, and tasks that were trained on count as held out."""
    fit(config(log, tmp_path / "wm"))
    extended(log, episodes[8:])
    with pytest.raises(InputError, match=f"{log}: has changed since the world model in .*wm began"):
        fit(config(log, tmp_path / "wm"))


def test_a_torn_line_of_metrics_is_left_out_with_a_note(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "wm"
    with pytest.raises(KeyboardInterrupt):
        fit(config(log, out), lambda row: _killed() if row["epoch"] == 2 else None)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"member": 0, "epo')
    fitted = fit(config(log, out))
    assert [row["epoch"] for row in metrics(out)] == [1, 2]
    assert fitted.notes[-1] == f"{out / 'metrics.jsonl'}: its last line was cut short by a crash and is left out"


def test_a_corrupt_checkpoint_is_named(log: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(config(log, tmp_path / "wm"), lambda row: _killed() if row["epoch"] == 2 else None)
    checkpoint = tmp_path / "wm" / "training-0.pt"
    data = bytearray(checkpoint.read_bytes())
    data[len(data) // 2] ^= 1
    checkpoint.write_bytes(data)
    with pytest.raises(InputError, match=rf"{checkpoint}: no training state .*--overwrite"):
        fit(config(log, tmp_path / "wm"))


def test_corrupt_figures_are_named_and_can_be_mended(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "wm"
    fit(config(log, out))
    kept = {name: (out / name).read_text() for name in ("figures.json", "kernel.json", "member-0/measured.json")}
    (out / "figures.json").write_text("{")
    with pytest.raises(InputError, match=rf"{out}/figures\.json: corrupt: not JSON: .*: `worldline fit --resume`"):
        Ensemble.load(out)
    (out / "kernel.json").write_text("{")
    with pytest.raises(InputError, match=rf"{out}/kernel\.json: corrupt: not JSON: .*: delete it, and --resume"):
        fit(config(log, out))
    (out / "kernel.json").unlink()
    fit(config(log, out))
    assert Ensemble.load(out).members
    assert {name: (out / name).read_text() for name in kept} == kept
    (out / "member-0/measured.json").write_text("{")
    with pytest.raises(InputError, match=r"not a readable world model: .*measured\.json: corrupt: not JSON"):
        Ensemble.load(out)


def test_half_a_world_model_is_no_world_model(log: Path, tmp_path: Path) -> None:
    """One member of two is there: what reads the folder must not take it for the whole."""
    killed = {"member": 1, "epoch": 1}
    with pytest.raises(KeyboardInterrupt):
        fit(config(log, tmp_path / "wm", members=2), lambda row: _killed() if killed.items() <= row.items() else None)
    assert (tmp_path / "wm" / "member-0").is_dir()
    with pytest.raises(InputError, match="not finished: worldline fit --resume"):
        Ensemble.load(tmp_path / "wm")
    fit(config(log, tmp_path / "wm", members=2))
    assert len(Ensemble.load(tmp_path / "wm").members) == 2


def test_a_full_disk_is_one_line(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where safetensors meets it, whose errors are not the system's."""

    def full(module: object, path: str, facts: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(weights, "save_model", full)
    with pytest.raises(WorldlineError, match=r"kernel: cannot be written: .*No space left"):
        fit(config(log, tmp_path / "wm"))
    assert not (tmp_path / "wm" / "kernel").exists()
