"""The documentation keeps its word: commands parse, links lead somewhere, code runs, every page is in the menu."""

import importlib.util
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import worldline.api
from worldline import command_line, store
from worldline.bench import BENCHES
from worldline.cli import VERBS, command_of, main
from worldline.types import InputError

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
RUN = ("quickstart.md", "environments.md", "policies.md", "python.md")
"""Pages whose `sh` and `python` blocks are run, in their order, in one folder."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


def commands(text: str) -> list[list[str]]:
    """The worldline commands of a block: comments, loops and continued lines are taken away."""
    cited = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip().startswith("worldline "):
            continue
        words = shlex.split(line, comments=True)
        if len(words) > 1 and words[1] in VERBS:
            cited.append(words[1:])
    return cited


CITED = [(page, words) for page in PAGES for _, text in blocks(page) for words in commands(text)]


def test_there_are_commands_in_the_documentation() -> None:
    assert len(CITED) > 30


@pytest.mark.parametrize(
    ("page", "words"), CITED, ids=[f"{page.name}: {' '.join(words)[:60]}" for page, words in CITED]
)
def test_every_command_has_flags_that_exist(page: Path, words: list[str]) -> None:
    assert_accepted(words, page.name)


@pytest.mark.parametrize("words", [*([verb] for verb in VERBS if verb != "bench"), ["env", "serve"]], ids=" ".join)
def test_every_example_of_a_help_text_is_accepted(words: list[str]) -> None:
    assert_examples(words)


@pytest.mark.parametrize("name", BENCHES)
def test_every_example_of_a_bench_is_accepted(name: str) -> None:
    assert_examples(["bench", name])


def assert_examples(words: list[str]) -> None:
    examples = command_of(words[0], words[1:]).Settings.examples
    assert examples
    for example in examples:
        _, _, cited = example.rpartition("worldline ")
        assert_accepted(shlex.split(cited), f"{' '.join(words)} --help")


def assert_accepted(words: list[str], place: str) -> None:
    verb, *rest = [word for word in words if word != "--json"]
    command = command_of(verb, rest)
    if verb == "bench" or (verb == "env" and rest[:1] == ["serve"]):
        rest = rest[1:]
    if rest and rest[0].endswith(".yaml"):
        rest[0] = str(ROOT / rest[0])
    variables = [word.replace("$e", "0.5") for word in rest]
    try:
        command_line.read(command.Settings, variables)
    except InputError as error:
        pytest.fail(f"{place}: worldline {' '.join(words)}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = [link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and not target.startswith(("http:", "https:", "mailto:"))]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_menu() -> None:
    def names(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [name for part in (entry.values() if isinstance(entry, dict) else entry) for name in names(part)]

    menu = names(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(menu) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_reference_has_every_public_name_and_setting() -> None:
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "docs" / "api_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.on_page_markdown((ROOT / "docs" / "api.md").read_text(), page=None)
    for name in worldline.__all__:
        assert f"\n### worldline.{name}\n" in page, name
        verb = getattr(worldline.api, name, None)
        assert verb is None or verb.__doc__.splitlines()[0] in page, name
    for typed in (worldline.api.CollectSettings, worldline.api.EvaluateSettings, worldline.api.TrainSettings):
        assert [name for name in typed.__annotations__ if f"| `{name}` |" not in page] == []
    for name in ("worldline.types", "worldline.store", "worldline.logs", "worldline.policies"):
        for public in importlib.import_module(name).__all__:
            assert f"\n### {name}.{public}\n" in page, public


@pytest.mark.parametrize("name", RUN)
def test_the_code_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, object] = {}
    for kind, text in blocks(ROOT / "docs" / name):
        if kind == "sh":
            for words in commands(text):
                assert main(words) == 0, f"worldline {' '.join(words)}"
        elif kind == "python":
            exec(compile(text, name, "exec"), values)
    assert values or list(tmp_path.iterdir())


def test_the_environment_of_the_page_can_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [text for kind, text in blocks(ROOT / "docs" / "environments.md") if kind == "python"]
    (tmp_path / "stairs_of_the_docs.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["collect", "stairs_of_the_docs:Stairs", "--policy", "random", "--episodes", "6", "--json"]) == 0


def test_the_policies_of_the_page_write_log_probs_or_say_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\n".join(text for kind, text in blocks(ROOT / "docs" / "policies.md") if kind == "python")
    (tmp_path / "policies_of_the_docs.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for attribute, scored in (("cautious", False), ("Cautious", True)):
        spec, out = f"policies_of_the_docs:{attribute}", tmp_path / f"{attribute}-{scored}"
        words = ["collect", "household", "--options.level", "tiny", "--policy", spec, "--epsilon", "0.3"]
        assert main([*words, "--episodes", "3", "--out", str(out)]) == 0
        assert (f"no log-probs are written: policy '{spec}' gives none" in capsys.readouterr().err) is not scored
        for step in (step for trajectory in store.read(out) for step in trajectory.steps):
            own = step.action == step.admissible[0]
            exact = pytest.approx(math.log(0.3 / len(set(step.admissible)) + 0.7 * own))
            assert step.logprob == (exact if scored else None)
