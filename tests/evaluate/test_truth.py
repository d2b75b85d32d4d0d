"""True values from a file, in each shape, and a clear line for what is none."""

import json
from pathlib import Path

import pytest

from worldline.evaluate.candidates import Candidate
from worldline.evaluate.truth import read_truth, truth_of
from worldline.types import InputError


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[1]", "must be an object"),
        ("{", "not JSON"),
        ('{"a": "high"}', "not a number"),
        ('{"policies": [{}]}', "name"),
        ("{}", r"--truth \S+truth.json: holds no value"),
    ],
)
def test_bad_truth(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "truth.json"
    path.write_text(content)
    with pytest.raises(InputError, match=line):
        read_truth(path)


def test_truth_in_each_shape(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    expected = {("a", 0.0): 0.5, ("a", 0.2): 0.4}
    for shape in (
        {"a": 0.5, "a@0.2": 0.4},
        {"a": {"0": 0.5, "0.2": 0.4}},
        {"policies": [{"name": "a", "truth": 0.5}, {"name": "a", "epsilon": 0.2, "value": 0.4}]},
    ):
        path.write_text(json.dumps(shape))
        assert read_truth(path) == expected


def test_truth_that_does_not_match_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text('{"a": 0.5, "b@0.2": 0.4, "zed": 0.1}')
    candidates = [Candidate(name, epsilon, "random", None) for name in ("a", "b") for epsilon in (0.0, 0.2)]
    truth, (strange, unknown) = truth_of(path, candidates)
    assert truth["b", 0.2] == 0.4
    assert strange.endswith("no candidate is called zed")
    assert "has no value for a@0.2, b:" in unknown
    assert truth_of(path, [*candidates, Candidate("zed", 0.0, "random", None)])[1] == [unknown]
    with pytest.raises(InputError, match="names none of the candidates, c"):
        truth_of(path, [Candidate("c", 0.0, "random", None)])
