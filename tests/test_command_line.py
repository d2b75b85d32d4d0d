from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from worldline.command_line import read
from worldline.config import Config, option, positional
from worldline.help_text import usage
from worldline.types import InputError


class Inner(Config):
    rate: float = option(0.1, help="how fast", ge=0)
    kind: Literal["a", "b"] = option("a", help="which")


class Outer(Config):
    """Does a thing."""

    examples: ClassVar = ("worldline thing x --count 3",)
    name: str = positional(help="what to do it to")
    count: int = option(1, help="how often")
    tags: tuple[str, ...] = option((), help="labels")
    levels: tuple[float, ...] = option((0.0,), help="noise")
    quick: bool = option(False, help="hurry")
    path: Path | None = option(None, help="where")
    inner: Inner = Inner()
    options: dict[str, Any] = option({}, help="free keys")


def test_flags_of_every_kind() -> None:
    got = read(
        Outer,
        "x --count 3 --tags a b --tags c --levels 0 0.5 --quick --path p/q --inner.rate=2 --inner.kind b "
        "--options.size 4 --options.deep.er yes".split(),
    )
    assert got == Outer(
        name="x",
        count=3,
        tags=("a", "b", "c"),
        levels=(0.0, 0.5),
        quick=True,
        path=Path("p/q"),
        inner=Inner(rate=2, kind="b"),
        options={"size": 4, "deep": {"er": True}},
    )
    assert read(Outer, ["x", "--no-quick"]).quick is False
    assert read(Outer, ["x", "--quick", "false"]).quick is False


def test_recipe_below_flags(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: y\ncount: 5\ninner: {rate: 3}\n")
    got = read(Outer, [str(recipe), "--count", "6", "--inner.kind", "b"])
    assert (got.name, got.count, got.inner.rate, got.inner.kind) == ("y", 6, 3.0, "b")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["x", "--cuont", "3"], "unknown flag '--cuont': did you mean '--count'?"),
        (["x", "--count"], "--count needs a value"),
        (["x", "--count", "--quick"], "--count needs a value"),
        (["x", "--count", "many"], "--count: Input should be a valid integer, .*got 'many'"),
        (["x", "--inner.rate", "-1"], "--inner.rate: .*greater than or equal to 0, got '-1'"),
        (["x", "--inner.kind", "c"], "--inner.kind: Input should be 'a' or 'b', got 'c'"),
        (["x", "--inner.knd", "b"], "did you mean '--inner.kind'"),
        (["x", "y"], "unexpected argument 'y'"),
        ([], "missing NAME: what to do it to"),
        (["none.yaml"], "none.yaml: no such recipe"),
        (["x", "--quick=perhaps"], "--quick: .*valid boolean"),
    ],
)
def test_bad_words_give_one_line(words: list[str], line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        read(Outer, words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nmae: y", "r.yaml: unknown setting 'nmae': did you mean 'name'?"),
        ("inner: {rat: 1}\nname: y", "unknown setting 'inner.rat': did you mean 'inner.rate'"),
        ("- a\n- b", "a recipe is a mapping"),
        ("a: [", "not YAML"),
        ("name: y\ncount: x", "--count"),
    ],
)
def test_bad_recipes_give_one_line(tmp_path: Path, text: str, line: str) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(text)
    with pytest.raises(InputError, match=line) as caught:
        read(Outer, [str(recipe)])
    assert "\n" not in str(caught.value)


def test_a_recipe_that_cannot_be_one_gives_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tmp_path / "r.yaml"

    def refusal() -> str:
        with pytest.raises(InputError) as caught:
            read(Outer, [str(recipe)])
        line = str(caught.value)
        assert line.startswith(f"{recipe}: ")
        assert "\n" not in line and len(line) < 1000
        return line

    recipe.mkdir()
    assert "is a folder" in refusal()
    recipe.rmdir()
    recipe.write_bytes(bytes(range(256)))
    assert "not UTF-8" in refusal()
    recipe.write_text("name: x\n" * 40_000)
    assert "is larger than 256 KiB" in refusal()
    recipe.write_text("name: x\noptions: &a {level: *a}\n")
    assert "within each other" in refusal()
    grown = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    recipe.write_text(f"name: x\noptions:\n  l0: &l0 [x]\n{grown}")
    assert "more than 10,000 values" in refusal()
    recipe.write_text("name: x\npath: ''\n")
    with pytest.raises(InputError, match="--path: is empty: name a path"):
        read(Outer, [str(recipe)])
    recipe.write_text("name: x\n")
    monkeypatch.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert "cannot be read: Permission denied" in refusal()


def test_an_alias_is_read() -> None:
    assert read(Outer, ["x", "--options.pair", "[&a [1, 2], *a]"]).options == {"pair": [[1, 2], [1, 2]]}


def test_help_shows_every_setting_with_its_default() -> None:
    text = usage(Outer, "worldline thing")
    for word in ("NAME", "--count N", "default 1", "--inner.kind a|b", "--options.KEY", "worldline thing x --count 3"):
        assert word in text


def test_settings_are_frozen() -> None:
    settings = read(Outer, ["x"])
    with pytest.raises(ValueError, match="frozen"):
        settings.count = 2  # type: ignore[misc]  # frozen: that is tested
