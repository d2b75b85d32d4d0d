"""Ctrl-C and SIGTERM: finished work is kept, the line says what is kept and what is not, no process stays behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldline.paw.train as paw_train
from worldline import signals, store
from worldline.cli import bench, demo, evaluate, fit, import_, main, report, sft
from worldline.sft.clone import Progress
from worldline.types import Step, Trajectory

Captured = pytest.CaptureFixture[str]


def started(words: list[str], **environment: str) -> "subprocess.Popen[str]":
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "worldline", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": folders, **environment},
    )


def wait_for(event: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not event():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_collection_keeps_its_episodes_and_goes_on(
    number: signal.Signals, code: int, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "log"
    words = ["collect", "household", "--options.level", "tiny", "--policy", "slow_policies:Slow"]
    words += ["--max-steps", "2", "--batch-size", "8", "--episodes", "2000", "--out", str(out)]
    process = started(words)
    wait_for(lambda: list(out.glob("*.parquet")), process)
    process.send_signal(number)
    if number is signal.SIGTERM:
        process.send_signal(number)  # `timeout` sends it twice
    shown, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert shown == ""
    count = store.count(out)
    assert err == f"worldline collect: interrupted; {count} finished episodes are kept in {out}: --resume goes on\n"
    assert 64 <= count < 2000
    words[words.index("2000")] = str(count + 8)
    assert main([*words, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == count + 8
    assert len(store.ids(out)) == store.count(out) == count + 8


def test_no_worker_process_outlives_a_terminated_run(tmp_path: Path) -> None:
    children = tmp_path / "children"
    words = ["collect", "household", "--options.level", "tiny", "--policy", "slow_policies:Stuck", "--workers", "2"]
    process = started([*words, "--episodes", "4"], CHILDREN=str(children))
    wait_for(lambda: children.exists() and children.read_text(), process)
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert err == "worldline collect: interrupted; without --out nothing is kept\n"
    workers = [int(number) for number in children.read_text().split()]
    assert len(workers) >= 2
    deadline = time.monotonic() + 10  # a process needs a moment to end
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [number for number in workers if _runs(number)] == []


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def interrupted(words: list[str], captured: Captured, code: int = 130) -> str:
    """What the line says is kept."""
    before = signal.getsignal(signal.SIGTERM)
    captured.readouterr()
    assert main(words) == code
    assert signal.getsignal(signal.SIGTERM) is before
    line = captured.readouterr().err.splitlines()[-1]
    return line.removeprefix(f"worldline {words[0]}: ")


def cut_short(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_each_verb_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    out = tmp_path / "out"
    log = ["--log", "x", "--policy", "random"]
    monkeypatch.setattr(evaluate, "judge", cut_short)
    assert interrupted(["evaluate", *log], capsys) == "interrupted; without --out nothing is kept"
    line = interrupted(["evaluate", *log, "--out", str(out)], capsys)
    assert line == "interrupted; no evaluation was written, and nothing is kept"
    (out / "cache").mkdir(parents=True)
    (out / "cache" / "a.npy").touch()
    kept = f"what models answered is kept in {out / 'cache'}: the same command goes on"
    for flag in (["--out", str(out)], ["--cache", str(out / "cache")]):
        line = interrupted(["evaluate", *log, *flag], capsys)
        assert line == f"interrupted; no evaluation was written; {kept}"

    monkeypatch.setattr(report, "write_report", cut_short)
    assert interrupted(["report", "x"], capsys) == "interrupted; no report was written"

    monkeypatch.setattr("worldline.sft.sft", cut_short)
    assert interrupted(["demo", "--out", str(tmp_path / "demo")], capsys) == "interrupted; nothing is kept"
    (tmp_path / "demo" / "clone").mkdir(parents=True)
    line = demo._kept(demo.DemoConfig(out=tmp_path / "demo"))
    assert line == f"{tmp_path / 'demo'} holds half a demo, which cannot go on: --overwrite starts anew"

    measured = bench.Bench("rank", demo.DemoConfig, cut_short)
    monkeypatch.setattr(bench, "choose", lambda words: measured)
    line = interrupted(["bench", "rank", "--out", str(out)], capsys)
    assert line == f"interrupted; what is finished is kept in {out}: the same command goes on"


@pytest.mark.parametrize(
    ("verb", "words", "checkpoint"),
    [
        (paw_train, "train household --model x", "update-{:06d}"),  # which the verb imports when it runs
        (sft, "sft household", "step-{:06d}"),
    ],
)
def test_training_and_cloning_say_which_checkpoint_is_kept(
    verb: Any, words: str, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def terminated_after(updates: int, checkpoints: int) -> str:
        def work(settings: Any, *watching: Any) -> None:
            for update in range(1, updates + 1):
                if verb is paw_train:
                    watching[0]({"update": update})
                else:
                    watching[-1](Progress(update, 9, 0.0, 0.0, 0))
            for update in range(1, checkpoints + 1):
                (settings.out / "checkpoints" / checkpoint.format(update)).mkdir(parents=True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

        monkeypatch.setattr(verb, words.split()[0], work)
        return interrupted([*words.split(), "--out", str(tmp_path)], capsys, code=143)

    assert terminated_after(0, 0).startswith("interrupted; no update was ")
    assert "the first checkpoint was not reached, nothing is kept" in terminated_after(3, 0)
    newest = tmp_path / "checkpoints" / checkpoint.format(2)
    assert terminated_after(3, 2) == f"interrupted; kept up to {newest}: --resume goes on from there"


def test_fitting_says_which_epoch_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def cut(settings: Any, watch: Any, stage: Any) -> None:
        losses = {f"held_out_{name}": 0.0 for name in fit._WATCHED}
        watch({"member": 1, "epoch": 3, "of": 9, **losses})
        raise KeyboardInterrupt

    words = f"fit x --out {tmp_path}".split()
    monkeypatch.setattr(fit, "fit", cut_short)
    assert interrupted(words, capsys) == "interrupted; no epoch was finished"
    line = interrupted([*words, "--members", "0"], capsys)
    assert line == "interrupted; wm was not finished: --resume goes on with it"
    monkeypatch.setattr(fit, "fit", cut)
    line = interrupted(words, capsys)
    assert line == f"interrupted; kept up to epoch 3 of member 2 in {tmp_path}: --resume goes on from there"


def test_an_interrupted_import_says_how_much_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "log"
    row = {"task": "t", "steps": [{"action": "look", "observation": "a room"}], "reward": 1.0}
    file.write_text("".join(json.dumps({**row, "task_id": f"t{n}"}) + "\n" for n in range(9)))
    words = ["import", "episodes", str(file), "--out", str(out)]
    append, appended = store.StoreWriter.append, 0

    def then_interrupt(writer: store.StoreWriter, episode: Any) -> None:
        nonlocal appended
        append(writer, episode)
        appended += 1
        if appended == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(import_.store.StoreWriter, "append", then_interrupt)
        line = interrupted(words, capsys)
    assert store.count(out) == 4
    assert line == f"interrupted; 4 episodes are kept in {out}: --resume leaves them out and goes on"
    assert main([*words, "--resume"]) == 0
    assert store.count(out) == 9


def test_outside_the_main_thread_signals_stay_as_they_are() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def run() -> None:
        with signals.sigterm_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_signal_waits_for_the_end_of_what_must_be_done_whole() -> None:
    done: list[str] = []
    with pytest.raises(signals.Terminated), signals.sigterm_interrupts():
        with signals.uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("the block")
        done.append("what follows")
    assert done == ["the block"]


def test_an_interrupt_in_the_middle_of_a_flush_writes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the shard has its final name but is still pending."""
    episode = Trajectory(id="one", env="x", task_id="t", policy="p", steps=(Step(observation="a room", action="look"),))
    rename = os.replace

    def then_signal(source: Any, target: Any) -> None:
        rename(source, target)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "replace", then_signal)
    with pytest.raises(KeyboardInterrupt), store.StoreWriter(tmp_path, flush_every=1) as writer:
        writer.append(episode)
    assert store.count(tmp_path) == 1


def test_a_resumed_training_says_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for update, line in ((0, "no checkpoint yet: starting at update 0"), (2, "going on from update 2")):

        def work(settings: Any, watch: Any, playing: Any, begin: Any, update: int = update) -> None:
            begin(update)
            raise KeyboardInterrupt

        monkeypatch.setattr(paw_train, "train", work)
        assert main(["train", "household", "--model", "x", "--out", str(tmp_path), "--resume"]) == 130
        assert line in capsys.readouterr().err.splitlines()
