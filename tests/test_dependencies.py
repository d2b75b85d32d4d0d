"""pyproject.toml, constraints.txt and what is installed say the same of every package that worldline uses."""

import ast
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
TESTED = [Requirement(line) for line in (*PROJECT["dependencies"], *EXTRAS["dev"])]
OPTIONAL = [Requirement(line) for name, lines in EXTRAS.items() if name != "dev" for line in lines]
PINS = {
    canonicalize_name(pin.name): pin
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
    for pin in [Requirement(line)]
}
INSIDES = ("torch", "transformers", "tokenizers", "trl")
"""Packages on whose insides we rest: no version above the tested ones may be taken."""


def pinned(requirement: Requirement) -> str:
    (pin,) = PINS[canonicalize_name(requirement.name)].specifier
    assert pin.operator == "=="
    return pin.version


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@pytest.mark.parametrize("requirement", TESTED, ids=str)
def test_what_is_required_is_pinned_within_its_range(requirement: Requirement) -> None:
    assert canonicalize_name(requirement.name) in PINS, f"constraints.txt: {requirement.name} is missing"
    assert requirement.specifier.contains(pinned(requirement), prereleases=True)


@pytest.mark.parametrize("requirement", OPTIONAL, ids=str)
def test_what_an_extra_requires_is_pinned_where_it_is_installed(requirement: Requirement) -> None:
    if canonicalize_name(requirement.name) not in PINS:
        exact = any(part.operator == "==" for part in requirement.specifier)
        if not exact and installed(requirement.name) is None:
            pytest.skip(f"{requirement.name} belongs to an extra that is not installed")
        assert exact, f"constraints.txt: {requirement.name} is missing"
    else:
        assert requirement.specifier.contains(pinned(requirement), prereleases=True)


@pytest.mark.parametrize("name", PINS)
def test_what_is_installed_is_what_is_pinned(name: str) -> None:
    version = installed(name)
    if version is None:
        pytest.skip(f"{name} is not installed here")
    assert PINS[name].specifier.contains(version, prereleases=True), f"{name} {version} is installed, not {PINS[name]}"


def test_everything_imported_is_required() -> None:
    """A package that only comes along with another may go with the other's next version."""
    named = {canonicalize_name(requirement.name) for requirement in (*TESTED, *OPTIONAL)}
    owners = packages_distributions()
    undeclared = {
        module
        for module in {name.partition(".")[0] for name in imported()} - sys.stdlib_module_names
        if module in owners and not named & {canonicalize_name(owner) for owner in owners[module]}
    }
    assert undeclared <= {"worldline", "pydantic_core"}  # pydantic itself requires one version of its core


@cache
def imported() -> frozenset[str]:
    """The modules that the package's files import; of `from torch import fx`, torch.fx."""
    paths = (ROOT / "src" / "worldline").rglob("*.py")
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }
    return frozenset(whole | parts)


def test_mypy_follows_whatever_is_imported() -> None:
    """What it leaves out of packages with types is what these import for themselves."""
    left_out = [
        module.removesuffix(".*")
        for override in SETTINGS["tool"]["mypy"]["overrides"]
        if "follow_imports_for_stubs" in override
        for module in override["module"]
    ]
    assert left_out
    assert [name for name in imported() for module in left_out if f"{name}.".startswith(f"{module}.")] == []


@pytest.mark.parametrize("name", INSIDES)
def test_no_untested_version_is_taken_where_we_rest_on_insides(name: str) -> None:
    """The next minor version after the pinned one is out of range."""
    requirement = next(requirement for requirement in TESTED if requirement.name == name)
    major, minor, *_ = map(int, pinned(requirement).split("."))
    assert not requirement.specifier.contains(f"{major}.{minor + 1}.0")
