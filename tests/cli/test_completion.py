"""Completion scripts, tried in the shells themselves."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from worldline.bench import BENCHES
from worldline.cli import VERBS, command_of, main
from worldline.cli.completion import Shell, completed_verbs
from worldline.config import dashed, flags_of


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    from worldline.cli.completion import CompletionConfig, run

    shells: tuple[Shell, ...] = ("bash", "zsh", "fish")
    for shell in shells:
        (folder / shell).write_text(run(CompletionConfig(shell=shell)).data["script"])
    return {shell: folder / shell for shell in shells}


def in_bash(script: Path, words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last of `words`."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    line = (
        'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _worldline; '
        '[ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", line, str(script), *words], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_verbs_flags_words_and_files(scripts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").touch()

    def offered(*words: str) -> list[str]:
        return in_bash(scripts["bash"], ["worldline", *words], tmp_path)

    assert sorted(offered("")) == sorted(VERBS)
    assert sorted(offered("co")) == ["collect", "compare", "completion"]
    assert offered("collect", "--epi") == ["--episodes"]
    flags = {f"--{dashed(flag.name)}" for flag in flags_of(command_of("train", []).Settings) if not flag.positional}
    assert set(offered("train", "--")) == flags | {"--json", "--help"}
    assert offered("train", "household", "--algo", "g") == ["grpo", "gigpo"]
    assert offered("evaluate", "--interval", "b") == ["bootstrap", "bernstein"]
    assert "household" in offered("collect", "") and offered("collect", "hous") == ["household"]
    assert sorted(offered("bench", "")) == sorted(BENCHES)
    assert "--seeds" in offered("bench", "rank", "--s")
    assert offered("train", "rec") == ["recipe.yaml"]
    assert offered("completion", "z") == ["zsh"]
    assert offered("nonsense", "--x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_that_the_shell_can_read(shell: str, scripts: dict[str, Path]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n", str(scripts[shell])], check=True)


def test_every_script_has_every_flag(scripts: dict[str, Path]) -> None:
    for verb in completed_verbs():
        for spelling in verb.spellings:
            written = f"-l {spelling[2:]} ", f"-l {spelling[2:]}\n"
            assert spelling in scripts["bash"].read_text() and spelling in scripts["zsh"].read_text()
            assert spelling == "--help" or any(each in scripts["fish"].read_text() for each in written), spelling


def test_the_script_is_printed_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is cut to the width of a terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["completion", "bash"]) == 0
    printed = capsys.readouterr().out
    assert main(["completion", "bash", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"] == printed
    assert main(["completion", "tcsh"]) == 2
