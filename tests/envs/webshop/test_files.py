"""WebShop's own files: what comes out of them, the canonical split, and the errors for broken ones."""

import gzip
import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from worldline.envs.webshop import WebShopConfig, WebShopWorld
from worldline.envs.webshop.files import DataFiles
from worldline.envs.webshop.reward import score
from worldline.types import InputError, World

RAW = {
    "asin": "B000000001",
    "name": "Cotton Shirt",
    "full_description": "Soft.",
    "small_description": "One bullet",
    "pricing": "$1,012.50$1,120.00$9",
    "category": "fashion",
    "query": " Shirts ",
    "product_category": "Clothing › Shirts",
    "customization_options": {
        "Color": [{"value": " Red/Blue ", "image": None}, {"value": "Green"}],
        "Size": None,
        "Fit": [{"value": "Slim"}],
    },
    "images": ["x"],
}


def write(folder: Path, products: Any, attributes: Any) -> Path:
    (folder / "items_shuffle_1000.json").write_text(json.dumps(products))
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(attributes))
    return folder


def test_raw_products_are_read_as_the_original_reads_them(tmp_path: Path) -> None:
    other = RAW | {"asin": "B000000002", "pricing": "", "customization_options": "", "small_description": ["a", "b"]}
    write(tmp_path, [RAW, RAW | {"name": "again"}, RAW | {"asin": "nan"}, RAW | {"asin": "B" * 11}, other], {})
    shirt, plain = DataFiles.find(tmp_path).products(random.Random(0))
    assert shirt.title == "Cotton Shirt"
    assert shirt.bullets == ("One bullet",)
    assert shirt.pricing == (1012.5, 1120.0)
    assert 1012.5 <= shirt.price <= 1120.0
    assert shirt.price_tag == "$1012.5 to $1120.0"
    assert shirt.options == {"color": ("red | blue", "green"), "fit": ("slim",)}
    assert shirt.attributes == ("DUMMY_ATTR",)
    assert shirt.query == "shirts"
    assert (plain.pricing, plain.price, plain.price_tag) == ((100.0,), 100.0, "$100.0")
    assert plain.bullets == ("a", "b")
    assert plain.options == {}


def test_goals_are_instructions_times_options_below_one_price(tmp_path: Path) -> None:
    attributes = {"B000000001": {"attributes": ["a b"], "instruction": "Find me a", "instruction_attributes": ["a b"]}}
    world = WebShopWorld(write(tmp_path, [RAW | {"pricing": "$12.0"}], attributes))
    goals = [world.tasks[world.get_task("test", i)] for i in range(world.num_tasks("test"))]
    assert sorted(goal.options for goal in goals) == [
        (("color", "green"), ("fit", "slim")),
        (("color", "red | blue"), ("fit", "slim")),
    ]
    (limit,) = {goal.price_upper for goal in goals}
    assert limit in (30.0, 40.0, 50.0)
    assert {goal.instruction for goal in goals} == {
        f"Find me a with color: {color}, and fit: slim, and price lower than {limit:.2f} dollars"
        for color in ("green", "red | blue")
    }


def test_no_limit_above_the_last_tens(tmp_path: Path) -> None:
    attributes = {"B000000001": {"attributes": [], "instruction": "Find me a", "instruction_attributes": ["a"]}}
    world = WebShopWorld(write(tmp_path, [RAW | {"pricing": "$985.0", "customization_options": ""}], attributes))
    assert world.tasks[world.get_task("test", 0)].instruction == "Find me a"


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: (folder / "items_ins_v2_1000.json").unlink(), "annotations of the products is missing"),
        (lambda folder: (folder / "items_shuffle_1000.json").unlink(), "a product list is missing"),
        (lambda folder: (folder / "items_shuffle_1000.json").write_text("[{"), "items_shuffle_1000.json: not JSON"),
        (
            lambda folder: (folder / "items_shuffle_1000.json").write_bytes(b"\xff\xfe"),
            "1000.json: not UTF-8: 0xff at byte 1: save it as UTF-8",
        ),
        (
            lambda folder: (folder / "products_1000.jsonl.gz").write_bytes(b"no gzip"),
            "products_1000.jsonl.gz: cannot be",
        ),
        (lambda folder: (folder / "products_1000.jsonl").write_text('{"asin"'), "line 1 is not JSON"),
        (
            lambda folder: (folder / "items_shuffle_1000.json").write_text('[{"asin": "B1"}]'),
            "product B1: KeyError: 'small_description'",
        ),
    ],
)
def test_broken_files_are_named(tmp_path: Path, break_it: Any, message: str) -> None:
    break_it(write(tmp_path, [RAW], {}))
    with pytest.raises(InputError) as error:
        WebShopWorld(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_folder_and_missing_human_instructions_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        WebShopWorld(tmp_path / "nowhere")
    with pytest.raises(InputError, match="human instructions is missing"):
        WebShopWorld(write(tmp_path, [RAW], {}), WebShopConfig(goals="human"))
    with pytest.raises(InputError, match="no synthetic goals"):
        WebShopWorld(tmp_path)


@pytest.fixture(scope="module")
def webshop(shared_data: Path) -> WebShopWorld:
    return WebShopWorld(shared_data / "webshop")


@pytest.mark.data
def test_the_goals_that_stand_in_two_splits_are_those_of_the_documentation(webshop: WebShopWorld) -> None:
    tasks: dict[object, list[str]] = {}
    for split in webshop.splits():
        for task in (webshop.get_task(split, i) for i in range(webshop.num_tasks(split))):
            goal = webshop.tasks[task]
            tasks.setdefault((goal.product.asin, goal.instruction, goal.attributes, goal.options), []).append(task)
    twice = [ids for ids in tasks.values() if len({task.split("-")[0] for task in ids}) > 1]
    assert len(tasks) == 6901 and len(twice) == 3
    page = (Path(__file__).parents[3] / "docs" / "environments.md").read_text(encoding="utf-8")
    assert all(f"`{first}`, `{second}`" in page for first, second in twice)


@pytest.mark.data
def test_the_shipped_set_gives_the_goals_of_the_original_in_its_order(webshop: WebShopWorld) -> None:
    """The digest is of the goals of the original's own server, its generator seeded with 233 before it draws prices."""
    assert isinstance(webshop, World)
    sizes = {split: webshop.num_tasks(split) for split in webshop.splits()}
    assert sizes == {"train": 5410, "dev": 1000, "test": 500}
    goals = [
        webshop.tasks[webshop.get_task(split, i)] for split in ("test", "dev", "train") for i in range(sizes[split])
    ]
    lines = "\n".join(f"{goal.product.asin} {goal.instruction}" for goal in goals)
    digest = "2d0fcce87745dbf6649fb18c55d34d9df894886a9ee6b43efd49527f1945d830"
    assert hashlib.sha256(lines.encode()).hexdigest() == digest
    per_product = Counter(goal.product.asin for goal in goals)
    assert (len(per_product), max(per_product.values())) == (415, 558)
    own = [score(goal, goal.product, [value for _, value in goal.options], webshop.nouns).total for goal in goals]
    assert sum(total < 1.0 for total in own) == 458


@pytest.mark.data
def test_both_forms_of_the_shipped_set_are_the_same_shop(webshop: WebShopWorld, shared_data: Path) -> None:
    raw = DataFiles.find(shared_data / "webshop" / "items_shuffle_1000.reconstructed.json.gz").products(
        random.Random(233)
    )
    assert len(raw) == 1000
    for one, other in zip(webshop.catalogue.products, raw, strict=True):
        assert all(getattr(one, name) == getattr(other, name) for name in one.__slots__), one.asin


@pytest.mark.data
def test_price_tags_are_the_stored_ones(webshop: WebShopWorld, shared_data: Path) -> None:
    with gzip.open(shared_data / "webshop" / "products_1000.jsonl.gz", "rt") as file:
        stored = {row["asin"]: row["Price"] for row in map(json.loads, file)}
    assert {product.asin: product.price_tag for product in webshop.catalogue.products} == stored


@pytest.mark.data
def test_human_goals_of_the_shipped_set(shared_data: Path) -> None:
    world = WebShopWorld(shared_data / "webshop", WebShopConfig(goals="human"))
    goals = [world.tasks[world.get_task("test", i)] for i in range(world.num_tasks("test"))]
    assert len(goals) == 13
    assert all(isinstance(option, str) for goal in goals for option in goal.options)
    assert world.make().reset(seed=1)[1]["task_id"].startswith("test-")  # the only split that has goals
