"""Specifications: what names a policy, and the errors for those that name none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldline import command_line, policies
from worldline.help_text import usage
from worldline.policies import PolicyConfig, PolicySource, PolicySpec
from worldline.types import InputError, Turn

HERE = "sample_policies"


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("WAITER", "ready"),
        ("Waiter", "wait"),
        ("factory", "earth 0.5"),
        ("look_around", f"{HERE}:look_around"),
        ("Nameless", f"{HERE}:Nameless"),
        ("NAMELESS", f"{HERE}:NAMELESS"),
    ],
)
def test_user_code(attribute: str, name: str) -> None:
    world: Any = "earth"
    assert policies.load(f"{HERE}:{attribute}", world, PolicyConfig(temperature=0.5)).name == name


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("expret", "did you mean 'expert'"),
        ("", "unknown policy"),
        ("hf:", "unknown policy"),
        ("nosuchmodule:policy", "no module named 'nosuchmodule'"),
        (f"{HERE}:absent", "has no 'absent'"),
        (f"{HERE}:NUMBER", "neither a policy nor a function"),
        (f"{HERE}:three", "must take"),
        (
            f"{HERE}:nothing",
            r"made int, which has no `act\(turns\)`: it was called with \(\) to make a policy; a function",
        ),
        (f"{HERE}:two", r"made str, .*: it was called with \(world, settings\) to .*; a function .* takes one turn$"),
        (f"{HERE}:first_of_two", r"'NoneType' object has no .*line \d+\): it was called with .* takes one turn$"),
        (f"{HERE}:Idle", r"'sample_policies:Idle': made Idle, which has no `act\(turns\)`$"),
        (f"{HERE}:Sealed", "'sample_policies:Sealed': Sealed has no `name`: add `name = '...'`"),
        (f"{HERE}.py:Waiter", "'sample_policies.py:Waiter': give sample_policies:Waiter, a module and not its file"),
        ("some/where.py:Waiter", "'some/where.py:Waiter': give where:Waiter, .* in its folder"),
        ("broken_policies:x", r"importing it failed: RuntimeError: no key in the environment \(.*, line 3\)"),
        (f"{HERE}:Unready", r"'sample_policies:Unready': making it failed: ValueError: no model \(.*, line \d+\)"),
        (f"{HERE}:leaving", "making it failed: SystemExit: 3"),
    ],
)
def test_bad_specifications_get_one_line(spec: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        policies.load(spec)
    assert "\n" not in str(error.value)


def test_a_function_must_return_text() -> None:
    turn = Turn("generic", "", "", None, ())
    with pytest.raises(InputError, match="policy 'sample_policies:number' returned 3: it must return the action as t"):
        policies.load(f"{HERE}:number").act([turn])


@pytest.mark.parametrize(("flag", "value"), [("4", 4), ("0", 0), ("all", "all")])
def test_history_on_the_command_line(flag: str, value: Any) -> None:
    assert command_line.read(PolicyConfig, ["--history", flag]).history == value
    assert "--history N|all" in usage(PolicyConfig, "worldline")


@pytest.mark.parametrize("flags", [["--history", "-1"], ["--temperature", "-1"], ["--prompt", "poem"]])
def test_settings_out_of_range(flags: list[str]) -> None:
    with pytest.raises(InputError, match=flags[0]):
        command_line.read(PolicyConfig, flags)


def test_importing_policies_loads_no_torch() -> None:
    code = "import sys, worldline.policies; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_spec_is_identified_by_all_that_decides_its_policy(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    spec = PolicySpec(f"hf:{tmp_path}")
    assert isinstance(spec, PolicySource)
    identities = [spec.identity, PolicySpec(spec.spec, epsilon=0.1).identity]
    identities.append(PolicySpec(spec.spec, PolicyConfig(temperature=0.5)).identity)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    identities.append(spec.identity)
    assert len(set(identities)) == 4
    (tmp_path / "model.safetensors").write_bytes(b"one")
    assert spec.identity == identities[0]
    assert PolicySpec("random", epsilon=0.5).load().name == "random+eps0.5"
