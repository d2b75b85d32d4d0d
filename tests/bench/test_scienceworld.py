"""`bench scienceworld` on recorded episodes that reached the full score."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from worldline.cli import main
from worldline.envs.jsonlines import rows_of

package = importlib.util.find_spec("scienceworld")
"""Without an origin it is only the folder of tests of that name."""


@pytest.mark.data
@pytest.mark.skipif(
    package is None or package.origin is None or shutil.which("java") is None,
    reason="needs the extra 'scienceworld' and a Java runtime",
)
def test_recorded_actions_reach_the_recorded_scores(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = shared_data / "scienceworld" / "gold_trajectories.jsonl.gz"
    recorded = sum(1 for _ in rows_of(file))
    assert main(["bench", "scienceworld", str(file), "--episodes", "2", "--listed-steps", "2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["episodes"] == len(range(0, recorded, max(1, recorded // 2)))
    assert figures["reach_recorded_score"] == 1.0
