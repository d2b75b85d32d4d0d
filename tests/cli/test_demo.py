"""The demo: the whole loop, on a smaller scale."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from worldline.cli import demo
from worldline.types import InputError


def test_the_whole_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = dict(list(demo.CAST.targets.items())[:2])
    monkeypatch.setattr(demo, "CAST", replace(demo.CAST, clone={"episodes": 60, "checkpoints": 6}, targets=few))
    monkeypatch.setattr(demo, "ESTIMATORS", ("naive", "adwm"))
    settings = demo.Settings(out=tmp_path / "demo", tasks=8)
    told = demo.run(settings).data
    assert {policy["name"] for policy in told["policies"]} == set(few)
    assert all(policy["estimates"]["adwm"]["value"] is not None for policy in told["policies"])
    truth = json.loads((tmp_path / "demo" / "truth.json").read_text())
    assert {policy["name"]: policy["truth"] for policy in told["policies"]} == truth
    page = (tmp_path / "demo" / "report.html").read_text()
    assert all(name in page for name in few)
    with pytest.raises(InputError, match="--overwrite"):
        demo.run(settings)
