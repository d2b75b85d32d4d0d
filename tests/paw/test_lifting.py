"""The pure functions can be lifted into another trainer file by file: they import torch and the standard library."""

import ast
import sys
from pathlib import Path

import pytest

import worldline.paw


@pytest.mark.parametrize("name", ["credit", "anchors", "selection", "objective", "loss", "logprobs"])
def test_imports_nothing_but_torch_and_the_standard_library(name: str) -> None:
    source = Path(worldline.paw.__file__).with_name(f"{name}.py").read_text()
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= sys.stdlib_module_names | {"torch"}
