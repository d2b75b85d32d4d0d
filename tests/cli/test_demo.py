"""The demo: the whole loop, on a smaller scale."""

import json
from pathlib import Path

import pytest

from worldline import store
from worldline.cli import demo
from worldline.types import InputError


def test_the_whole_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = demo.candidates
    names = ["clone", "expert that forgets"]
    monkeypatch.setattr(demo, "CLONING", {"episodes": 60, "checkpoints": 2})
    monkeypatch.setattr(demo, "candidates", lambda paths: {name: every(paths)[name] for name in names})
    monkeypatch.setattr(demo, "ESTIMATORS", ("naive", "wm"))
    settings, out = demo.Settings(out=tmp_path / "demo", tasks=8), tmp_path / "demo"
    result = demo.run(settings).data
    assert [policy["name"] for policy in result["policies"]] == names
    truth = json.loads((out / "truth.json").read_text())
    assert {policy["name"]: policy["truth"] for policy in result["policies"]} == truth
    for policy in result["policies"]:
        imagined = [t.episode_return for t in store.read(out / "imagined", policies=[policy["name"]])]
        assert policy["estimates"]["wm"]["value"] == pytest.approx(sum(imagined) / len(imagined))
    assert list(dict.fromkeys(t.policy for t in store.read(out / "log"))) == [
        "logger-clone",
        "logger-good",
        "logger-poor",
    ]
    page = (out / "report.html").read_text()
    assert all(name in page for name in names)
    with pytest.raises(InputError, match="--overwrite"):
        demo.run(settings)
