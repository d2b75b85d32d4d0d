"""Help: what must be given first, shared settings under their own heading, no line wider than the terminal."""

import pytest

from worldline.cli import VERBS, main
from worldline.collect import CollectConfig
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


def test_the_settings_of_an_environment_are_shown_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["env", "household"], ["collect", "household", "--help"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert "--options.level tiny|small|standard" in shown and "--options.families" in shown
    assert main(["env", "houshold"]) == 2
    assert "did you mean 'household'" in capsys.readouterr().err
