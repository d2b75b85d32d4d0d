"""Help: what must be given first, shared settings under their own heading, no line wider than the terminal."""

from typing import Literal

import pytest

from worldline.cli import VERBS, bench, command_of, main
from worldline.collect import CollectConfig
from worldline.config import Config, Flag, dashed, flags_of, option
from worldline.help_text import _listing as options_lines
from worldline.help_text import usage


def test_required_settings_come_first_and_shared_ones_last() -> None:
    lines = usage(CollectConfig, "worldline collect").splitlines()
    words = "required:", "ENV", "--policy", "settings:", "--episodes", "language models", "--temperature", "examples:"
    places = [next(k for k, line in enumerate(lines) if line.strip().startswith(word)) for word in words]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"bench"}))
def test_settings_fit_80_columns(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help"]) == 0
    lines = capsys.readouterr().out.partition("examples:")[0].splitlines()
    flags = [line for line in lines if line.startswith("  ")]
    assert max(map(len, flags), default=0) <= 80


def test_help_names_the_estimators_and_one_default_of_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f" {name}," in shown for name in ("wis", "pdwis", "dr", "is-clip", "fqe")) and " magic," in shown
    assert main(["fit", "--help"]) == 0
    jobs = capsys.readouterr().out.partition("--jobs")[2].partition("--resume")[0]
    assert jobs.count("default") == 1 and "one a core" in jobs


def test_the_overview_of_the_benches_has_examples_that_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    examples = capsys.readouterr().out.partition("examples:")[2].split("\n")
    commands = [line.split()[2:] for line in examples if line.strip()]
    assert len(commands) >= 3
    for name, *words in commands:
        settings = bench.choose([name]).Settings
        flags = {f"--{dashed(flag.name)}" for flag in flags_of(settings)} | {"--json"}
        assert {word for word in words if word.startswith("--")} <= flags


def test_the_settings_of_an_environment_are_shown_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["env", "household"], ["collect", "household", "--help"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert "--options.level tiny|small|standard" in shown and "--options.families" in shown
    for words in (["env", "imagined:runs/wm"], ["train", "imagined:runs/wm", "--help"]):
        assert main(words) == 0
        assert "--options.halt true|false" in capsys.readouterr().out
    assert main(["env", "houshold"]) == 2
    assert "did you mean 'household'" in capsys.readouterr().err


def test_a_switch_that_is_on_shows_how_to_turn_it_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--[no-]refit " in shown and "--overwrite " in shown and "--[no-]overwrite" not in shown
    flag = Flag("options.halt", bool, option(True, help="ends episodes"))
    assert options_lines([flag])[0].split() == ["--options.halt", "true|false", "ends", "episodes", "(default:", "on)"]


def test_an_argument_that_may_be_left_out_stands_in_brackets() -> None:
    assert usage(command_of("env", []).Settings, "worldline env").startswith("usage: worldline env [NAME] ")
    assert usage(CollectConfig, "worldline collect").startswith("usage: worldline collect ENV ")


class Choices(Config):
    """Settings whose flags are as wide as the column of flags, and wider."""

    exactly: Literal["textbook", "verl_agent", "x"] = option("x", help="explained")
    short: str = option("", help="explained")


@pytest.mark.parametrize("letters", range(1, 8))
def test_an_explanation_never_touches_its_flag(letters: int) -> None:
    flag = Flag("preset", Literal["textbook", "v" * 6 + "w" * letters], Choices.model_fields["exactly"])
    lines = options_lines([flag, Flag("short", str, Choices.model_fields["short"])])
    assert all("explained" not in line or line.partition("explained")[0].endswith("  ") for line in lines)


def test_the_verbs_say_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert "wm" in lines["fit"] and "Parquet" in lines["export"]
    assert max(map(len, lines.values())) <= 120


def test_a_folder_that_need_not_be_given_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--help"]) == 0
    assert "--out PATH " in capsys.readouterr().out
