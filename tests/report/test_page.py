"""The page as a whole: self-contained, escaped, small, never overwritten in silence; and its other sections."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from page_reader import PageReader
from report_material import CURVES, FIGURES, METRICS, episode, write_log
from scipy.stats import binomtest

import faults
from worldline.cli import main
from worldline.report import compose, find, render, write_report
from worldline.report.world_model import LABELS
from worldline.types import InputError, Step

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&$x_1$\x00"
Captured = pytest.CaptureFixture[str]


def page(path: Path) -> PageReader:
    return PageReader(render(compose(find(path)), "test"))


def harmless(shown: PageReader) -> None:
    """No script, nothing fetched, no handler: whatever the data says."""
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form"} & shown.names()
    for _, attributes in shown.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.findall(r"@import|url\((?!#)", "".join(attributes.get("style", "") for _, attributes in shown.tags))
    assert "http://" not in shown.page
    assert "https://" not in shown.page


def test_a_folder_of_everything_becomes_one_page(
    judged: Path, run: Path, world_model: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "evaluation.json").write_text((judged / "evaluation.json").read_text())
    (world_model / "log").mkdir()  # the world model's own copy of its log is not reported a second time
    write_log(world_model / "log", [episode(1)])
    write_log(tmp_path / "logs", [episode(1), episode(2, success=False)])
    assert main(["report", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {
        "report": str(tmp_path / "report.html"),
        "sections": ["evaluation", "training", "world model", "log"],
    }
    written = (tmp_path / "report.html").read_text()
    assert len(written) < 1_000_000
    assert [attributes["data-kind"] for tag, attributes in PageReader(written).tags if tag == "section"] == result[
        "sections"
    ]
    harmless(PageReader(written))


def test_sections_of_one_kind_are_counted(tmp_path: Path, capsys: Captured) -> None:
    for number in range(3):
        write_log(tmp_path / f"logs{number}", [episode(number)])
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("log (3) -> ")


def test_hostile_text_is_shown_and_not_run(judged: Path, tmp_path: Path) -> None:
    evaluation = json.loads((judged / "evaluation.json").read_text())
    for policy in evaluation["policies"]:
        policy["name"] = HOSTILE
        policy["estimates"]["dr"]["flag"] = HOSTILE
    evaluation["warnings"] = [HOSTILE]
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation))
    hostile = episode(1, policy=HOSTILE, goal=HOSTILE, final_observation=HOSTILE, observation=HOSTILE)
    write_log(tmp_path / "log", [hostile, episode(2, success=False)])
    shown = page(tmp_path)
    harmless(shown)
    assert shown.text.count("<script>alert(1)</script>") > 10
    assert "$x_1$" in shown.text


def test_the_file_runs_no_script_even_if_it_held_one(judged: Path) -> None:
    policies = [attributes.get("content", "") for tag, attributes in page(judged).tags if tag == "meta"]
    assert any("default-src 'none'" in policy for policy in policies)


def test_a_report_is_not_overwritten_in_silence(run: Path, capsys: Captured) -> None:
    (run / "report.html").write_text("mine")
    assert main(["report", str(run)]) == 2
    assert "report.html: is there already: --overwrite replaces it" in capsys.readouterr().err
    assert (run / "report.html").read_text() == "mine"
    assert main(["report", str(run), "--overwrite", "--json"]) == 0
    assert "Training" in (run / "report.html").read_text()


def test_the_evaluations_plot_alone(judged: Path, run: Path, tmp_path: Path) -> None:
    report = write_report(judged, tmp_path / "plot.svg")
    drawn = report.path.read_text()
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    shown = PageReader(drawn)
    assert shown.names().isdisjoint({"script", "image"})
    assert all(name in shown.text for name in ("naive", "wis", "dr", "truth"))
    with pytest.raises(InputError, match="holds no evaluation"):
        write_report(run, tmp_path / "other.svg")


@pytest.mark.parametrize("how", ["full", "killed"])
def test_whatever_breaks_the_old_report_or_the_new_one_is_there(how: faults.How, tmp_path: Path) -> None:
    """Every write, sync and rename of `report --out --overwrite` fails, or is the last, in turn."""
    source, out = tmp_path / "wm", tmp_path / "reports" / "report.html"
    source.mkdir()
    (source / "figures.json").write_text(json.dumps({"figures": FIGURES}))

    def work() -> None:
        write_report(source, out, overwrite=True)

    def content() -> str:
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "now", out.read_text())

    points = faults.points(work)
    new = content()
    assert points == 4
    for number in range(points):
        out.write_text("old")
        assert faults.broken(work, number, how) != 0
        assert content() in ("old", new)
        work()
        assert content() == new
        assert list(out.parent.iterdir()) == [out]


def test_a_folder_that_cannot_be_written_is_one_line(run: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("")
    assert main(["report", str(run), "--out", str(tmp_path / "file" / "r.html")]) == 2
    captured = capsys.readouterr()
    assert "r.html: cannot be written: Not a directory" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("nowhere", None, "no such file or folder"),
        ("empty/note.txt", "hello", "holds nothing to report on"),
        ("x.txt", "hello", "not a thing to report on"),
        ("run/metrics.jsonl", "", "holds no metrics yet"),
        ("run/metrics.jsonl", '{"update": 1}\noops\n{"update": 2}\n', "line 2 is no JSON object"),
        ("run/metrics.jsonl", '{"a": ' + "[" * 200_000 + '\n{"update": 2}\n', "line 1 is no JSON object"),
        ("wm/horizon.json", '{"curves": [1]}', "expected"),
        ("wm/figures.json", "[1]", "a JSON object is expected"),
        ("log/x.parquet", "PAR1", "broken shard"),
    ],
)
def test_bad_input_is_one_line(name: str, content: str | None, line: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    source = path if path.suffix in (".txt", "") else path.parent
    source = source.parent if name.startswith("empty") else source
    assert main(["report", str(source), "--out", str(tmp_path / "r.html")]) == 2
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_a_training_run(run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"update": 3, "succ')  # cut short by a crash
    shown = page(run)
    (_, first, second) = METRICS
    cells = [cell for row in shown.tables["Last figures"][1:] for cell in row]
    last = {name.text: cell.value for name, cell in zip(cells[::2], cells[1::2], strict=True)}
    for name in ("success", "wm_loss", "lambda", "kl", "entropy", "eval_success"):
        assert last[name] == second[name]
    phases = shown.rows("Seconds per phase")
    assert phases["rollout"]["seconds"].value == first["seconds_rollout"] + second["seconds_rollout"]
    assert phases["rollout"]["share"].text == f"{5 / 8:.0%}"  # the world model's seconds are within the update's
    assert "rollout.temperature" in shown.text
    for title in ("success", "world-model loss", "lambda, mean", "KL", "entropy"):
        assert title in shown.text


def test_cloning_has_its_loss(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "steps": 9, "loss": 6.5, "learning_rate": 0.1}\n' * 2)
    shown = page(tmp_path)
    assert "Cloning" in shown.text
    assert "6.5" in shown.text


def test_figures_of_a_fit_are_named_in_words(world_model: Path) -> None:
    figures = {"wm_nats": 0.5, "wm_nats_with_expectations": 0.4, "wm_nats_without_expectations": 0.5}
    (world_model / "figures.json").write_text(json.dumps({"figures": figures, "notes": []}))
    rows = [row[0].text for row in page(world_model).tables["On held-out tasks, mean of the members"][1:]]
    assert rows == [
        "wm: nats per step of what was answered, by the model as it is",
        "wm with expectations by the whole episode so far: nats per step",
        "wm without expectations by the whole episode so far: nats per step",
    ]


def test_every_figure_of_a_fit_says_on_its_own_what_it_is_of() -> None:
    """ "The same" does not say as what, once rows lie between, or a figure is missing."""
    kernel = {name: label for name, label in LABELS.items() if name.startswith("wm_")}
    assert len(set(kernel.values())) == len(kernel)
    assert all(label.startswith(("wm:", "wm with", "wm-bag:")) for label in kernel.values())
    assert all("wm-bag" in label for name, label in kernel.items() if name.endswith("of_the_bag"))


def test_a_world_model(world_model: Path) -> None:
    shown = page(world_model)
    held_out = [row[1].text for row in shown.tables["On held-out tasks, mean of the members"][1:]]
    assert held_out == [f"{FIGURES['effective_rank']:.3f}", "0.938", "–"]
    aucs = shown.rows("Over the whole horizon")
    assert {name: row["reward AUC"].value for name, row in aucs.items()} == {
        name: curves["reward_auc"] for name, curves in CURVES.items()
    }
    assert "only 9 tasks" in shown.text
    assert "retrieval@1" in shown.text
    (world_model / "horizon.json").unlink()
    assert "Over the whole horizon" not in page(world_model).tables


def test_a_log(tmp_path: Path) -> None:
    made = [episode(n, success=n < 3, observation=f"room {n}") for n in range(10)]
    shown = page(write_log(tmp_path, made))
    row = shown.rows("Policies")["p"]
    exact = binomtest(3, 10).proportion_ci(method="wilson")
    assert row["episodes"].value == 10
    assert row["success"].text == f"0.300 [{exact.low:.3f}, {exact.high:.3f}]"
    assert "A success" in shown.text
    assert "A failure" in shown.text
    assert "room 0" in shown.text
    assert "room 3" in shown.text


def test_a_log_of_imagined_episodes_says_so(tmp_path: Path) -> None:
    real = episode(1)
    imagined = real.model_copy(update={"env": f"imagined:{real.env}"})
    assert page(write_log(tmp_path / "a", [imagined])).facts["environment"][1] == "a world model: nothing was played"
    assert page(write_log(tmp_path / "b", [real])).facts["environment"][1] == ""


@pytest.mark.parametrize("success", [True, False, None])
def test_a_log_of_one_outcome_or_of_none(success: bool | None, tmp_path: Path) -> None:
    row = page(write_log(tmp_path, [episode(1, success)])).rows("Policies")["p"]
    assert row["success"].text.partition(" ")[0] == {True: "1.000", False: "0.000", None: "–"}[success]


def test_endless_observations_do_not_swell_the_page(tmp_path: Path) -> None:
    steps = tuple(Step(observation="x" * 50_000, action="y" * 50_000) for _ in range(200))
    made = [episode(n, success=n > 0).model_copy(update={"steps": steps}) for n in range(2)]
    written = write_report(write_log(tmp_path, made)).path.read_text()
    assert len(written) < 400_000
    assert "48,800 more characters" in written


def test_many_policies_do_not_swell_the_page(tmp_path: Path) -> None:
    shown = page(write_log(tmp_path, [episode(n, policy=f"update-{n:06d}") for n in range(100)]))
    assert len(shown.tables["Policies"]) == 41
    assert "60 more policies are not shown" in shown.text


def test_no_torch_is_loaded() -> None:
    probe = "import sys, worldline.report.server; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_odd_numbers_are_drawn(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"update": 1, "success": float("nan"), "kl": 1e308, "loss": float("inf"), "seconds_update": 1e308},
        {"update": None, "success": None, "kl": "much", "loss": [1]},
        {"update": 2},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    text = page(tmp_path).text
    assert "1e+308" in text
    assert "∞" in text


def test_figures_that_are_none_are_refused(world_model: Path) -> None:
    (world_model / "figures.json").write_text('{"figures": 3}')
    with pytest.raises(InputError, match=r"figures.json: corrupt: 'figures' must be an object"):
        page(world_model)
