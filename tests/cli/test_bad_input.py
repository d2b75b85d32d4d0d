"""Bad input from outside: one line that names the culprit, exit code 2 (1 where the work failed), nothing lost."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from worldline import store
from worldline.cli import main
from worldline.types import Decision, Turn

Captured = pytest.CaptureFixture[str]


def refused(words: list[str], capsys: Captured, code: int = 2) -> str:
    """The one line that the command says on stderr; progress bars end with a newline of their own."""
    assert main(words) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.strip().splitlines()[-1]
    assert line.startswith(f"worldline {words[0]}")
    assert "Traceback" not in captured.err
    return line


def logged(folder: Path) -> Path:
    assert main(["collect", "household", "--policy", "random", "--episodes", "3", "--out", str(folder), "--json"]) == 0
    return folder


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("collect houshold --policy random", "unknown environment 'houshold': did you mean 'household'"),
        ("collect household --policy rnadom", "unknown policy 'rnadom': did you mean 'random'"),
        ("collect household --policy hf:no/where/at/all", "hf:no/where/at/all: no such folder"),
        ("collect household --policy no_such_module:agent", "no module named 'no_such_module'"),
        ("collect household --policy random --episodes none", "--episodes"),
        ("collect household --policy random --epsilon 2", "--epsilon"),
        ("collect household --policy random --options.levle tiny", "unknown setting 'levle': did you mean 'level'"),
        ("collect household --policy random --options.max_steps 0", "household: --options.max-steps: Input should be"),
        ("collect household --policy random --tasks=", "--tasks: give START:STOP or indices such as 3,5,8, got ''"),
        ("collect alfworld --policy random", "alfworld needs --data PATH"),
        ("collect alfworld --data nowhere --policy random", "--data nowhere: no such file or folder"),
        ("evaluate --log nowhere --policy x=random", "nowhere: no such log"),
        ("export nowhere --out x.jsonl", "nowhere: no such log"),
        ("import episodes nowhere.jsonl --out x", "nowhere.jsonl: no such file"),
        ("import --format episode setup.py --out x", "unknown format 'episode': did you mean 'episodes'"),
        ("sft nowhere --out x", "unknown environment 'nowhere', and no such folder: choose from"),
        ("sft runs/lgs --out x", "unknown environment 'runs/lgs', and no such folder: there is runs/logs/"),
        ("train household --model ./nowhere --out x", "./nowhere"),
    ],
)
def test_words(words: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "logs").mkdir(parents=True)
    assert line in refused(words.split(), capsys)


@pytest.mark.parametrize(
    "words",
    [
        "collect household --policy random",
        "sft household",
        "train household --model m",
        "fit log",
        "evaluate --log log --policy x=random",
        "compare log",
        "report log",
        "import episodes x.jsonl",
        "export log",
        "demo",
    ],
)
@pytest.mark.parametrize("below", ["", "/new/run"])
def test_an_out_that_cannot_be_written(words: str, below: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("")
    out = f"{tmp_path}/file/x{below}"
    line = refused([*words.split(), "--out", out], capsys)
    assert line == f"worldline {words.split()[0]}: --out {out}: cannot be written: Not a directory"


def test_a_folder_without_the_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("worldline.cli.os.access", lambda path, mode: False)  # root may do anything
    line = refused(["sft", "household", "--out", str(tmp_path / "run")], capsys)
    assert line == f"worldline sft: --out {tmp_path / 'run'}: cannot be written: Permission denied"


def test_a_name_that_is_too_long_for_the_disk(tmp_path: Path, capsys: Captured) -> None:
    line = refused(["sft", "household", "--out", str(tmp_path / ("x" * 300) / "run")], capsys)
    assert line.startswith("worldline sft: ")
    assert "File name too long" in line


def test_text_in_another_encoding_says_how_to_mend_it(tmp_path: Path, capsys: Captured) -> None:
    log = logged(tmp_path / "log")
    capsys.readouterr()
    for name in ("truth.json", "recipe.yaml"):
        (tmp_path / name).write_bytes('{"näme": 1}'.encode("latin-1"))
    mended = "not UTF-8: 0xe4 at byte 4: save it as UTF-8"
    words = ["evaluate", "--log", str(log), "--policy", "x=random", "--truth", str(tmp_path / "truth.json")]
    assert refused(words, capsys).endswith(f"truth.json: {mended}")
    assert refused(["collect", str(tmp_path / "recipe.yaml")], capsys).endswith(f"recipe.yaml: {mended}")
    rows = {"x.jsonl": '{"task_id": "ä", "reward": 1}\n', "x.csv": "task_id,reward\nä,1\n"}
    for name, text in rows.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
        assert "save it as UTF-8" in refused(["import", str(tmp_path / name), "--out", str(tmp_path / "new")], capsys)


def test_an_empty_folder_is_no_log(tmp_path: Path, capsys: Captured) -> None:
    assert "holds no log" in refused(["evaluate", "--log", str(tmp_path), "--policy", "x=random"], capsys)


def test_an_export_of_policies_and_splits_that_are_not_there_is_refused(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "x.jsonl"
    words = ["export", str(logged(tmp_path / "log")), "--out", str(out)]
    capsys.readouterr()
    assert "no episode has the policy 'expert': there are random" in refused([*words, "--policies", "expert"], capsys)
    assert "no episode has the split 'test': there are train" in refused([*words, "--splits", "test"], capsys)
    assert not out.exists()
    assert main([*words, "--policies", "random", "--splits", "train"]) == 0
    assert len(out.read_text().splitlines()) == 3


def test_an_export_takes_the_label_of_a_policy(tmp_path: Path, capsys: Captured) -> None:
    log, out = tmp_path / "log", tmp_path / "x.jsonl"
    words = f"collect household --options.level tiny --policy random --name good --episodes 2 --out {log}".split()
    for epsilon in ("0.2", "0.5"):
        assert main([*words, "--epsilon", epsilon]) == 0
    assert main(["export", str(log), "--out", str(out), "--policies", "good@0.2"]) == 0
    assert [json.loads(line)["epsilon"] for line in out.read_text().splitlines()] == [0.2, 0.2]
    capsys.readouterr()
    line = refused(["export", str(log), "--out", str(out), "--overwrite", "--policies", "good@0.3"], capsys)
    assert line.endswith("--policies: no episode has the policy 'good@0.3': there are good@0.2, good@0.5")


def test_an_export_of_one_log_twice_is_refused(tmp_path: Path, capsys: Captured) -> None:
    log, out = str(logged(tmp_path / "log")), tmp_path / "x.jsonl"
    capsys.readouterr()
    line = refused(["export", log, log, "--out", str(out)], capsys)
    assert line.endswith("is there 2 times (so are 2 more): give each log once")
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("e.csv", "e.csv: name a file that ends with .jsonl or .jsonl.gz or .jsonl.xz or .parquet, or give --format"),
        ("foo", "foo: name a file that ends with .jsonl or"),
        ("x.gz", "x.gz: name a file that ends with .jsonl or"),
        ("x.jsonl --format parquet", "x.jsonl: name a file that ends with .parquet"),
        ("x.parquet --format jsonl", "x.parquet: name a file that ends with .jsonl or .jsonl.gz or .jsonl.xz"),
        ("x.jsonl --format traces", "x.jsonl: ends as a file of jsonl: --format traces writes a folder"),
    ],
)
def test_an_export_is_named_by_its_format(words: str, line: str, tmp_path: Path, capsys: Captured) -> None:
    log = str(logged(tmp_path / "log"))
    capsys.readouterr()
    assert f"--out {tmp_path}/{line}" in refused(["export", log, "--out", *f"{tmp_path}/{words}".split()], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.xz"])
def test_an_export_of_each_name_is_read_back(name: str, tmp_path: Path) -> None:
    log, out, again = logged(tmp_path / "log"), tmp_path / name, tmp_path / "again"
    assert main(["export", str(log), "--out", str(out)]) == 0
    assert main(["import", str(out), "--out", str(again)]) == 0
    assert list(store.read(again)) == list(store.read(log))


def test_bad_rows_of_one_kind_are_told_once(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text('{"messages": 3}\n{"no": 1}\n{"messages": 4}\n{"messages": 5}\n')
    assert main(["import", "chat", str(file), "--out", str(tmp_path / "log")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"{file}: line 1: messages: ")
    assert lines[0].endswith("(and 2 more rows for this reason)")
    assert lines[1] == f"{file}: line 2: messages: Field required"
    assert "4 bad rows" in lines[2]
    assert len(lines) == 3


def test_bad_rows_alone_are_no_log_even_if_they_are_left_out(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "text.txt"
    file.write_text("hello\nworld\n")
    line = refused(["import", "jsonl", str(file), "--out", str(tmp_path / "log"), "--skip-bad"], capsys)
    assert f"{file}: holds no episode: all 2 rows are bad" in line
    assert not (tmp_path / "log").exists()


def test_an_unknown_estimator_is_refused_before_any_policy_acts(tmp_path: Path, capsys: Captured) -> None:
    words = ["evaluate", "--log", str(logged(tmp_path)), "--policy", "x=test_bad_input:NeverAsked"]
    capsys.readouterr()
    line = refused([*words, "--estimators", "wiz"], capsys)
    assert "--estimators: unknown estimator 'wiz': did you mean 'wis'" in line


class NeverAsked:
    """Must not even be made."""

    def __init__(self) -> None:
        raise AssertionError("the policy acted")


def test_a_truncated_shard_is_named_and_the_others_stay(tmp_path: Path, capsys: Captured) -> None:
    (good,) = store.shards(logged(tmp_path))
    broken = tmp_path / "zz.parquet"
    broken.write_bytes(good.read_bytes()[:-100])
    capsys.readouterr()
    line = refused(["export", str(tmp_path), "--out", str(tmp_path / "x.jsonl")], capsys)
    assert f"{broken}: broken shard" in line
    assert not (tmp_path / "x.jsonl").exists()
    assert len(list(store.read(tmp_path, on_bad=lambda error: None))) == 3


def test_a_shard_of_another_version_is_named(tmp_path: Path, capsys: Captured) -> None:
    (shard,) = store.shards(logged(tmp_path))
    table = pq.read_table(shard)
    metadata = {**(table.schema.metadata or {}), b"worldline.schema_version": b"99"}
    pq.write_table(table.replace_schema_metadata(metadata), shard)
    capsys.readouterr()
    line = refused(["evaluate", "--log", str(tmp_path), "--policy", "x=random"], capsys)
    assert f"{shard}: schema version 99" in line


def test_logs_of_two_environments_are_not_pooled(tmp_path: Path, capsys: Captured) -> None:
    logged(tmp_path)
    assert main(["collect", "shop", "--policy", "random", "--episodes", "2", "--out", str(tmp_path), "--json"]) == 0
    capsys.readouterr()
    line = refused(["evaluate", "--log", str(tmp_path), "--policy", "x=random"], capsys)
    assert "holds episodes of household, shop" in line


def test_a_truth_about_others_and_an_out_that_is_a_file_are_refused(tmp_path: Path, capsys: Captured) -> None:
    logged(tmp_path / "log")
    truth = tmp_path / "truth.json"
    truth.write_text('{"zzz": 1}')
    capsys.readouterr()
    words = ["evaluate", "--log", str(tmp_path / "log"), "--policy", "x=random"]
    assert "names none of the candidates, x" in refused([*words, "--truth", str(truth)], capsys)
    assert "--out: is a file: name a folder, got" in refused([*words, "--out", str(truth)], capsys)
    assert truth.read_text() == '{"zzz": 1}'


class OddWords:
    """Says control characters, bytes that are no text, and ten megabytes."""

    name = "odd"

    def act(self, turns: list[Turn]) -> list[Decision]:
        words = ["\x00\x1b[31mlook\x07", "go \udcff\udcfe", "x" * 10_000_000]
        return [Decision(word := words[turn.step % 3], word) for turn in turns]


def test_odd_actions_are_answered_and_stored(tmp_path: Path, capsys: Captured) -> None:
    words = ["collect", "household", "--policy", "test_bad_input:OddWords", "--episodes", "2", "--max-steps", "3"]
    assert main([*words, "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["invalid_actions"] == 6
    kept = next(iter(store.read(tmp_path)))
    assert kept.steps[0].action == "\x00\x1b[31mlook\x07"
    assert kept.steps[1].action.startswith("go ")
    assert len(kept.steps[2].action) == 10_000_000


class Stumbling(BaseHTTPRequestHandler):
    """Answers two requests, then only 500."""

    answered = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Stumbling.answered += 1
        reply = json.dumps({"choices": [{"message": {"content": "look"}}]}).encode()
        self.send_response(200 if Stumbling.answered <= 2 else 500)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stumbling() -> Iterator[str]:
    Stumbling.answered = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stumbling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def test_an_api_that_breaks_down_fails_the_work_and_keeps_what_was_finished(
    stumbling: str, tmp_path: Path, capsys: Captured
) -> None:
    words = f"collect household --policy api:m@{stumbling} --episodes 3 --batch-size 1 --max-steps 2 --api-retries 1"
    line = refused([*words.split(), "--api-backoff", "0", "--out", str(tmp_path)], capsys, code=1)
    assert "500" in line
    assert store.count(tmp_path) == 1


@pytest.mark.parametrize(
    "words",
    [
        "sft household",
        "fit logs",
        "train household --model x",
        "bench rank shop",
        "collect household --policy random",
        "compare logs",
    ],
)
def test_a_file_is_no_run_folder(words: str, capsys: Captured, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    assert "--out: is a file: name a folder, got" in refused([*words.split(), "--out", str(mine)], capsys)
    assert mine.read_text(encoding="utf-8") == "mine"
