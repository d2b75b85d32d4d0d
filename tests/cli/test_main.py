"""The contract of the command line: exit codes, one-line errors, clean stdout."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from worldline.cli import VERBS, main, verb_result
from worldline.cli.env import EXTRAS
from worldline.types import InputError, WorldlineError


def test_help_names_every_verb_and_loads_nothing_heavy() -> None:
    probe = (
        "import sys; from worldline.cli import main; main(['--help']); "
        "print(sorted({'torch', 'transformers', 'pyarrow', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert all(verb in done.stdout for verb in VERBS)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"bench"}))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: worldline {verb}" in shown
    assert "examples:" in shown


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["colect"], "worldline: unknown verb 'colect': did you mean 'collect'?"),
        (["collect"], "worldline collect: missing ENV"),
        (
            ["collect", "household", "--polcy", "x"],
            "worldline collect: unknown flag '--polcy': did you mean",
        ),
        (["bench"], "worldline bench: name a bench"),
        (["bench", "evn"], "worldline bench: unknown bench 'evn': did you mean 'env'?"),
        (["sft", "household"], "worldline sft: missing --out"),
        (
            ["evaluate", "--log", "x", "--resume"],
            "worldline evaluate: --resume: evaluate needs none: the same command goes on from its cache",
        ),
    ],
)
def test_bad_words_are_one_line_and_exit_code_two(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(line)
    assert captured.err.count("\n") == 1


def test_a_model_that_is_not_there_is_told_before_torch_is_loaded() -> None:
    lines = {
        ("--model", "./nowhere"): "--model ./nowhere: no such folder",
        ("--model=/no/where",): "--model /no/where: no such folder",
        (): "missing --model: the causal LM",
    }
    commands = [["train", "household", *words, "--out", "x"] for words in lines]
    probe = (
        "import sys; from worldline.cli import main\n"
        f"for words in {commands}: print(main(words), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 False"] * 3
    assert all(line in printed for line, printed in zip(lines.values(), done.stderr.splitlines(), strict=True))


def test_progress_is_told_in_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "collect household --options.level tiny --policy expert --episodes 5 --json".split()
    assert main(words) == 0
    assert capsys.readouterr().err == ""  # work that is done at once says nothing
    monkeypatch.setattr("worldline.cli.verb_result.EVERY", 0.0)
    assert main(words) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6  # the start and five episodes
    assert lines[-1].startswith("episodes 5 of 5 ")


def test_another_stage_of_the_work_is_named_soon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds of work, and nobody at a terminal: a stage is named when it begins, and heard of again much later."""
    times = iter((0.0, 1.0, 6.0, 12.0, 22.0))
    monkeypatch.setattr("worldline.cli.verb_result.time.monotonic", lambda: next(times))
    with verb_result.progress() as bar:
        line = bar.add_task("reading", total=None, detail="")
        for what, done in (("reading", 9), ("rivals", 0), ("rivals", 3), ("rivals", 5)):
            bar.update(line, description=what, completed=done, total=10)
    assert capsys.readouterr().err.splitlines() == ["rivals 0 of 10", "rivals 5 of 10"]


def test_json_is_all_there_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["packages"]["torch"]


TALKATIVE = """
import os, sys
print("imported")

class Chatter:
    tasks = ("a",)

    def reset(self, *, seed=None, task=None):
        print("reset")
        os.system("echo from a process")
        return "hello", {"admissible": ["x"]}

    def step(self, action):
        sys.__stdout__.write("step")
        return "bye", 1.0, True, False, {"won": True}

def agent(turn):
    print("agent")
    return "x"
"""


def test_what_user_code_prints_is_not_among_the_json(tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    words = ["collect", "talkative:Chatter", "--policy", "talkative:agent", "--episodes", "1"]
    command = [sys.executable, "-m", "worldline", *words]
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["success"] == 1.0
    for text in ("imported", "reset", "from a process", "step", "agent"):
        assert text in done.stderr
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(text in plain.stdout for text in ("imported", "from a process", "agent", "success"))
    assert plain.stderr == ""


def test_json_from_python_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chatty.py").write_text(TALKATIVE)
    monkeypatch.chdir(tmp_path)
    assert main("collect chatty:Chatter --policy chatty:agent --episodes 1 --json".split()) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["success"] == 1.0
    assert "agent" in captured.err


def test_the_return_of_one_episode_has_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("collect household --options.level tiny --policy expert --episodes 1".split()) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│ return")]
    assert [row.split("│")[3].strip() for row in rows] == ["-"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("bad"), 2), (WorldlineError("bad"), 1), (OSError("bad"), 1), (MemoryError("bad"), 1)],
)
def test_what_an_error_did_to_the_work_stands_in_its_line(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(settings: object) -> None:
        error.add_note("3 finished episodes are lost: the disk is full")
        raise error

    monkeypatch.setattr("worldline.cli.env.run", fail)
    assert main(["env"]) == code
    err = capsys.readouterr().err
    assert err.endswith("bad; 3 finished episodes are lost: the disk is full\n")
    assert err.count("\n") == 1


def test_env_lists_the_extras_there_are() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"dev"}
