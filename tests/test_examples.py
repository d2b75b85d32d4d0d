"""The three journeys of the documentation, as scripts that run: smaller than for people, and otherwise the same."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from brief_fits import make_fits_brief
from worldline.sft.small import SIZES

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_own_logs_to_is_v3_better_than_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded("compare_own_logs", monkeypatch).run(tmp_path)
    printed = capsys.readouterr().out
    assert "v3 is better than v2" in printed and "billing: +" in printed
    assert (tmp_path / "choice" / "report.html").is_file()


def test_own_environment_and_policy_to_a_trained_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SIZES, "nano", SIZES["nano"] | {"hidden_size": 32, "num_hidden_layers": 1})
    loaded("own_environment", monkeypatch).run(tmp_path, epochs=1, updates=1, episodes=16, group_size=2)
    printed = capsys.readouterr().out
    assert printed.count("own_environment:Stairs: ") == 3
    assert (tmp_path / "paw" / "metrics.jsonl").is_file()


def test_an_api_agent_scored_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_fits_brief(monkeypatch, 10)
    loaded("api_agent_offline", monkeypatch).run(tmp_path, episodes=16, rollouts=2)
    printed = capsys.readouterr().out
    assert "v2 is better than v1" in printed or "does not tell whether v2 is better" in printed
    assert "what works: worldline fit and --world-model" in printed
    assert "v3 by wm: " in printed


def test_the_notebook_runs_from_a_log_to_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_fits_brief(monkeypatch, 10)
    notebook = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for number, cell in enumerate(notebook["cells"]):
        assert not cell.get("outputs"), "outputs are not kept: they are of one machine"
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace("episodes=24", "episodes=16")
            exec(compile(source, f"cell {number}", "exec"), values)
    assert "expert@0.3 is better than expert@0.7" in values["comparison"].answer
    evaluation = values["evaluation"]
    logged = evaluation.value("in_log", "wm", 0.3).value
    assert logged == pytest.approx(values["good"].summary()["success"])
    assert logged > evaluation.value("random", "wm", 0.5).value
    assert evaluation.answer in evaluation._repr_html_().replace("&#x27;", "'")
    assert values["page"].path.is_file()
