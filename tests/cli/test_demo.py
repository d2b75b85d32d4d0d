"""The demo: the whole loop, on a smaller scale, and that a fresh process can do a part of it."""

import json
from pathlib import Path

import pytest

from brief_fits import make_fits_brief
from worldline import store
from worldline.cli import demo
from worldline.policies.faulty_expert import Faults
from worldline.sft.small import SIZES
from worldline.types import InputError
from worldline.worker_pool import worker_pool


def test_the_whole_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> None:
    forgets = {"expert that forgets": demo.scripted_candidates()["expert that forgets"]}
    names = ["clone", *forgets]
    monkeypatch.setattr(demo, "OPTIONS", {"level": "tiny", "max_steps": 5})
    monkeypatch.setattr(demo, "CLONING", {"episodes": 12, "checkpoints": 2, "batch_tokens": 512, "vocabulary": 400})
    monkeypatch.setattr(demo, "scripted_candidates", lambda: forgets)
    monkeypatch.setattr(demo, "ESTIMATORS", ("naive", "wm"))
    monkeypatch.setitem(SIZES, "nano", SIZES["nano"] | {"hidden_size": 32, "num_hidden_layers": 1})
    make_fits_brief(monkeypatch, 10)
    settings, out = demo.DemoConfig(out=tmp_path / "demo", tasks=8), tmp_path / "demo"
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


def test_a_fresh_process_plays_as_this_one(tmp_path: Path) -> None:
    """It has to import all that it needs, and to make the policy of what is sent to it."""
    with worker_pool(1) as pool:
        there = pool.submit(demo.play, "a", Faults(chance=0.3), 2, 1, 0, tmp_path / "there").result()
    here = demo.play("a", Faults(chance=0.3), 2, 1, 0, tmp_path / "here")
    assert [episode.steps for episode in there] == [episode.steps for episode in here]
    assert len(list(store.read(tmp_path / "there"))) == 2
