"""What a nasty user or a hostile log can do at the command line: one line and an exit code, never a traceback."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.table import Table
from test_bad_input import Captured, refused

from worldline import store
from worldline.cli import env, main, verb_result
from worldline.cli.verb_result import PlainConsole, VerbResult, note, table, visible
from worldline.types import Step, Trajectory

PLAY = "collect household --policy random --episodes 1"
EVALUATE = "evaluate --log x --policy random"


@pytest.mark.parametrize(
    ("words", "more", "line"),
    [
        (PLAY, ["--options.level", "{"], "--options.level: not YAML"),
        (PLAY, ["--options.level", "2020-99-99"], "--options.level: not YAML: month must be in 1..12"),
        (PLAY, ["--options.level", "!!bool x"], "--options.level: not YAML"),
        (PLAY, ["--options.level", "9" * 5000], "--options.level: not YAML"),
        (PLAY, ["--options.level", "0x" + "f" * 5000], "--options.level: holds an integer of more than 64 bits"),
        (PLAY, ["--options.level", "[" * 2000], "--options.level: not YAML"),
        (PLAY, ["--options.level", "[" * 99 + "]" * 99], "nested more than 32 deep"),
        (PLAY, ["--options.level", r'"a\0b"'], "--options.level: holds a NUL"),
        (PLAY, ["--options.a", "1", "--options.a.b", "2"], "--options.a.b: --options.a is given too"),
        (PLAY, ["--options.a.b", "1", "--options.a", "2"], "--options.a: is given twice"),
        (PLAY, ["--options.a", "1", "--options.a", "2"], "--options.a: is given twice"),
        (PLAY, ["--seed", "1", "--seed", "2"], "--seed: is given twice: give it once"),
        (PLAY, ["--resume", "--no-resume"], "--resume: is given twice"),
        (PLAY, ["--out", "a\0b"], r"argument 'a\x00b': holds a NUL"),
        (PLAY, ["--out", "a\udcff"], r"argument 'a\udcff': holds a NUL or a character that is not Unicode"),
        (PLAY, ["--name", "\ud800"], "not Unicode"),
        (PLAY, ["--out", ""], "--out: is empty: name a path"),
        (PLAY, ["--out", "/dev/null/x"], "--out /dev/null/x: cannot be written: Not a directory"),
        ("collect household --policy random", ["--episodes", str(10**30)], "--episodes: Input should be less"),
        (PLAY, ["--seed", str(2**70)], "--seed: does not fit in 64 bits"),
        (PLAY, ["--batch-size", str(10**30)], "--batch-size: does not fit in 64 bits"),
        (PLAY, ["--max-steps", "9" * 5000], "--max-steps: "),
        (PLAY, ["--epsilon", "nan"], "--epsilon: Input should be a finite number"),
        (PLAY, ["--temperature", "inf"], "--temperature: Input should be a finite number"),
        (PLAY, ["--workers", "-1"], "--workers: Input should be greater than or equal to 0"),
        (PLAY, ["--tasks", "0:" + "9" * 5000], "--tasks: give START:STOP"),
        (PLAY, ["--tasks", "-1"], "--tasks: '-1' is not within"),
        (PLAY, ["--tasks", "9" * 30], "is not within"),
        (PLAY, ["--tasks", "5:2"], "is an empty slice"),
        ("collect household --policy random", ["--episodes", "²"], "--episodes: Input should be a valid integer"),
        (PLAY, [""], "unexpected argument ''"),
        (PLAY, ["--"], "unknown flag '--'"),
        (EVALUATE, ["--seed", "-1"], "--seed: Input should be greater than or equal to 0"),
        (EVALUATE, ["--bootstrap", str(10**12)], "--bootstrap: Input should be less than or equal to 1000000"),
        (EVALUATE, ["--epsilon", "nan"], "Input should be a finite number"),
        ("evaluate --policy random", ["--log", ""], "--log: is empty: name a path"),
        ("report", [""], "--path: is empty: name a path"),
        ("view x", ["--port", "-1"], "--port: Input should be greater than or equal to 0"),
        ("view x", ["--port", "70000"], "--port: Input should be less than or equal to 65535"),
        ("sft household --overwrite", ["--out", ""], "--out: is empty: name a path"),
    ],
)
def test_absurd_words_are_one_short_line(
    words: str, more: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = refused([*words.split(), *more], capsys)
    assert line in shown
    assert len(shown) < 6000
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_features_that_is_too_wide_is_refused(capsys: Captured, tmp_path: Path) -> None:
    log = written(tmp_path, lambda episode, step: 1.0)
    words = ["evaluate", "--log", str(log), "--policy", "x=random", "--features", "ngrams:" + "9" * 5000]
    assert "write ngrams:WIDTH" in refused(words, capsys)


# What the system refuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), "runs/x: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "runs/x"), "runs/x: Permission denied"),
        (OSError("the disk is gone"), "the disk is gone"),
        (MemoryError(), "out of memory: use a smaller batch"),
        (MemoryError("Unable to allocate 171. PiB"), "out of memory: Unable to allocate 171. PiB"),
    ],
)
def test_an_error_of_the_system_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(env, "run", raising(error))
    assert main(["env"]) == 1
    assert capsys.readouterr().err == f"worldline env: {line}\n"


def test_a_bug_shows_its_traceback_and_asks_for_a_report(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(env, "run", raising(ZeroDivisionError("division by zero")))
    assert main(["env"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == "ZeroDivisionError: division by zero"
    assert lines[-1].endswith("this is a bug: please report the lines above with the output of `worldline env`")


def raising(error: Exception) -> Any:
    def run(settings: Any) -> VerbResult:
        raise error

    return run


@pytest.mark.parametrize(
    "words", ["evaluate --log {log} --policy x=random --out {out}", "fit {log} --out {out}", "demo --out {out}"]
)
def test_a_folder_that_cannot_be_made_is_one_line(words: str, tmp_path: Path, capsys: Captured) -> None:
    log = written(tmp_path / "log", lambda episode, step: float(step))
    line = refused(words.format(log=log, out="/proc/nowhere").split(), capsys, code=1)
    assert "/proc/nowhere" in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_result_that_cannot_be_printed_is_one_line() -> None:
    words = [sys.executable, "-m", "worldline", "export", "--help"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    assert (done.returncode, done.stderr) == (1, "worldline export: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("words", [["--help"], ["export", "--help"], ["--version"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error(words: list[str], unbuffered: str) -> None:
    """As of `worldline --help | head -1`, also where each line is written at once."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "worldline", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


# What is printed ------------------------------------------------------------------------------------------------------


def test_control_characters_are_written_out() -> None:
    assert visible("\x1b[31mred\x07\x9b\x7f") == r"\x1b[31mred\x07\x9b\x7f"
    assert visible("user\u202etxt.exe\u2066") == r"user\u202etxt.exe\u2066"
    assert visible("half \udcff, line\u2028end") == r"half \udcff, line\u2028end"
    plain = "naïve 漢字\u3000\u00a0 👩\u200d🔬 می\u200cخواهم\ttab\nline"
    assert visible(plain) == plain


HOSTILE = "[/x] [bold]:smile:[/bold] \x1b[2J\u202e"
SHOWN = r"[/x] [bold]:smile:[/bold] \x1b[2J\u202e"


def test_names_are_printed_as_they_are(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    theirs = Table(title=HOSTILE)
    theirs.add_column(HOSTILE)
    theirs.add_row(HOSTILE)
    VerbResult({}, (HOSTILE, table(HOSTILE, (HOSTILE,), [(HOSTILE,)]), theirs)).show()
    note(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out.count(SHOWN) == 7
    assert captured.err == f"{SHOWN}\n"
    assert "\x1b" not in captured.out + captured.err


def test_a_progress_bar_shows_names_as_they_are(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainConsole, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "200")
    with verb_result.progress() as bar:
        bar.add_task(HOSTILE, total=1, detail=HOSTILE)
    err = capsys.readouterr().err
    assert SHOWN in err
    assert "\x1b[2J" not in err and "\u202e" not in err


def test_markup_in_paths_and_names_costs_nothing(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    log = tmp_path / "L[/x]"
    words = ["collect", "household", "--policy", "random", "--options.level", "tiny", "--episodes", "3"]
    assert main([*words, "--name", HOSTILE, "--out", str(log)]) == 0
    assert SHOWN in capsys.readouterr().out
    words = ["evaluate", "--log", str(log), "--policy", "[x] [bold]\x1b[2J\u202e=random", "--no-certificate"]
    assert main([*words, "--estimators", "naive", "wis", "--out", str(tmp_path / "out[/red]")]) == 0
    captured = capsys.readouterr()
    assert r"[x] [bold]\x1b[2J\u202e" in captured.out
    assert "\x1b" not in captured.out + captured.err
    copy = tmp_path / "copy[/x].jsonl"
    assert main(["export", str(log), "--out", str(copy)]) == 0
    assert main(["import", "jsonl", str(copy), "--out", str(tmp_path / "again[/]")]) == 0
    assert main(["report", str(tmp_path / "out[/red]")]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_line_is_safe_too(capsys: Captured) -> None:
    assert main(["\x1b[2J"]) == 2
    assert capsys.readouterr().err.startswith(r"worldline: unknown verb '\x1b[2J'")


def test_json_is_plain_ascii_and_loses_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    data = {"name": "\x1b[2J\x7f\x9b\u202e漢\udcff", "unknown": float("nan"), "large": float("inf")}
    monkeypatch.setattr(env, "run", lambda settings: VerbResult(data, ()))
    assert main(["env", "--json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii() and out.strip().isprintable()
    assert json.loads(out) == {"name": data["name"], "unknown": None, "large": None}


def test_a_terminal_that_is_not_utf8_shows_escapes(tmp_path: Path) -> None:
    words = "collect household --policy random --options.level tiny --episodes 1 --name 漢".split()
    done = subprocess.run(
        [sys.executable, "-m", "worldline", *words],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u6f22 in household" in done.stdout


# What is estimated ----------------------------------------------------------------------------------------------------


def written(folder: Path, reward: Any, logprob: float = -0.6931471805599453) -> Path:
    """A log of twelve episodes of three steps by two policies that toss a coin."""
    with store.StoreWriter(folder) as writer:
        for number in range(12):
            steps = tuple(
                Step(
                    observation=f"room {number} {step}",
                    admissible=("a", "b"),
                    action="ab"[(number + step) % 2],
                    reward=reward(number, step),
                    logprob=logprob,
                )
                for step in range(3)
            )
            name = f"e{number}"
            writer.append(
                Trajectory(id=name, env="x", task_id=name, policy=f"p{number % 2}", steps=steps, terminated=True)
            )
    return folder


@pytest.mark.parametrize("reward", [1e308, -1e308, 1e101])
def test_a_reward_beyond_a_double_is_named(reward: float, tmp_path: Path, capsys: Captured) -> None:
    log = written(tmp_path, lambda episode, step: reward if (episode, step) == (3, 1) else 0.0)
    line = refused(["evaluate", "--log", str(log), "--policy", "x=random"], capsys)
    assert f"episode 'e3', step 2: reward is {reward}, too large (at most 1e+100)" in line
    line = refused(["compare", str(log), "--metric", "return"], capsys)
    assert f"episode 'e3': its return is {reward:.3g}, too large to compare (at most 1e+100)" in line
    rows = tmp_path / "rows.jsonl"
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]
    rows.write_text(json.dumps({"messages": messages, "reward": reward}) + "\n")
    assert main(["import", str(rows), "--format", "chat", "--out", str(tmp_path / "imported")]) == 2
    assert f"steps.0.reward: is {reward:.3g}, too large (at most 1e+100)" in capsys.readouterr().err


class NearlyDependent:
    """Features in which all steps look alike, far above the penalty of a regression."""

    def states(self, turns: list[Any]) -> Any:
        return np.full((len(turns), 4), 1e12) * (1 + 1e-13 * np.arange(len(turns))[:, None])

    def actions(self, texts: list[str]) -> Any:
        return np.full((len(texts), 4), 1e12)


class Enormous:
    """Features whose squares do not fit a double."""

    def states(self, turns: list[Any]) -> Any:
        return np.full((len(turns), 4), 1e200)

    def actions(self, texts: list[str]) -> Any:
        return np.full((len(texts), 4), 1e200)


@pytest.mark.parametrize(
    ("features", "logprob", "refusal"),
    [
        ("test_hostile_input:NearlyDependent", -0.69, {"dm", "mis", "dice", "lfqe", "dr", "wdr", "magic"}),
        ("test_hostile_input:Enormous", -0.69, {"dm", "mis", "dice", "lfqe", "dr", "wdr", "magic"}),
        ("ngrams:16", -1e308, {"is", "wis", "pdis", "pdwis", "mis", "dr", "wdr", "magic"}),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::scipy.linalg.LinAlgWarning")
def test_an_estimator_refuses_what_it_cannot_solve(
    features: str, logprob: float, refusal: set[str], tmp_path: Path, capsys: Captured
) -> None:
    log = written(tmp_path / "log", lambda episode, step: float(step == 2), logprob)
    words = ["evaluate", "--log", str(log), "--policy", "x=random", "--features", features, "--bootstrap", "100"]
    assert main([*words, "--out", str(tmp_path / "out"), "--json"]) == 0
    (judged,) = json.loads(capsys.readouterr().out)["policies"]
    refused_by = {name: estimate["refused"] for name, estimate in judged["estimates"].items() if "refused" in estimate}
    assert refused_by.keys() == refusal
    assert all(refused_by.values())
    values = [estimate["value"] for name, estimate in judged["estimates"].items() if name not in refusal]
    assert np.isfinite(values).all()


def test_features_that_are_no_numbers_are_refused(tmp_path: Path, capsys: Captured) -> None:
    log = written(tmp_path, lambda episode, step: 1.0)
    words = ["evaluate", "--log", str(log), "--policy", "x=random", "--features", "test_hostile_input:Undefined"]
    assert "--features: the text features hold a value that is no finite number" in refused(words, capsys)


class Undefined(Enormous):
    """Features that are no numbers."""

    def states(self, turns: list[Any]) -> Any:
        return np.full((len(turns), 4), np.nan)


def test_a_truth_beyond_a_double_is_refused(tmp_path: Path, capsys: Captured) -> None:
    log = written(tmp_path / "log", lambda episode, step: 1.0)
    truth = tmp_path / "truth.json"
    for value in ("1e999", "-Infinity", "1" + "0" * 400):
        truth.write_text(f'{{"x": {value}}}')
        line = refused(["evaluate", "--log", str(log), "--policy", "x=random", "--truth", str(truth)], capsys)
        assert "the value of 'x' is" in line
