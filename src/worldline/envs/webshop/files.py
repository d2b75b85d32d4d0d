"""WebShop's data files: the raw product lists and annotations of the original, or products as its loader left them.

Plain or gzipped. Everything a field may look like is decided here; behind this file there are only `Product`s.
"""

import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline.envs.webshop.goals import AnnotatedInstruction
from worldline.envs.webshop.product import Product
from worldline.files import not_utf8
from worldline.types import InputError

_PRODUCTS = ("products_1000.jsonl*", "items_shuffle_1000*.json*", "items_shuffle*.json*", "products*.jsonl*")
_NO_PRICE = 100.0
_NO_ATTRIBUTE = "DUMMY_ATTR"


@dataclass(frozen=True)
class DataFiles:
    """The files one WebShop consists of."""

    items: Path
    attributes: Path
    human: Path | None = None

    @classmethod
    def find(cls, data: Path, human: bool = False) -> "DataFiles":
        """The files in folder `data` (the 1,000-product set where it has several), or beside product file `data`."""
        items = data if data.is_file() else _first(data, _PRODUCTS, "a product list")
        small = "_1000" if "1000" in items.name else ""
        attributes = _first(items.parent, (f"items_ins_v2{small}.json*",), "the annotations of the products")
        people = _first(items.parent, ("items_human_ins*.json*",), "the human instructions") if human else None
        return cls(items, attributes, people)

    def products(self, rng: random.Random) -> list[Product]:
        """All products in file order; a price given as a range is drawn from `rng`."""
        attributes = _load(self.attributes)
        made: dict[str, Product] = {}
        for row in _rows(self.items):
            asin = row.get("asin", "nan")
            if asin == "nan" or len(asin) > 10 or asin in made:
                continue
            try:
                made[asin] = _product(row, attributes.get(asin, {}).get("attributes"), rng)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise InputError(f"{self.items}: product {asin}: {type(error).__name__}: {error}") from None
        return list(made.values())

    def instructions(self) -> Mapping[str, list[AnnotatedInstruction]]:
        """The instructions by asin: annotators' sentences, or one sentence made of attributes."""
        if self.human is not None:
            return {
                asin: [
                    AnnotatedInstruction(
                        row["instruction"], tuple(row["instruction_attributes"]), tuple(row["instruction_options"])
                    )
                    for row in rows
                ]
                for asin, rows in _load(self.human).items()
            }
        return {
            asin: [AnnotatedInstruction(row["instruction"], tuple(row["instruction_attributes"]))]
            for asin, row in _load(self.attributes).items()
            if row.get("instruction") is not None
        }


def _product(row: Mapping[str, Any], attributes: Iterable[str] | None, rng: random.Random) -> Product:
    bullets = row["small_description"]
    pricing = _pricing(row.get("pricing"))
    return Product(
        asin=row["asin"],
        title=row["name"],
        description=row["full_description"],
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        pricing=pricing,
        price=rng.uniform(*pricing) if len(pricing) == 2 else pricing[0],
        options=_options(row),
        attributes=(_NO_ATTRIBUTE,) if attributes is None else tuple(attributes),
        category=row["category"],
        query=row["query"].lower().strip(),
        product_category=row["product_category"],
    )


def _pricing(given: Any) -> tuple[float, ...]:
    """One price or the ends of a range, from `$3.50`, `$3.50$9.00` or a list of numbers."""
    if not given:
        return (_NO_PRICE,)
    if isinstance(given, str):
        given = [float(re.sub(r"[^\d.]", "", part)) for part in given.split("$")[1:]]
    return tuple(given[:2])


def _options(row: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    if "options" in row:
        return {name: tuple(values) for name, values in row["options"].items()}
    return {
        name.lower(): tuple(content["value"].strip().replace("/", " | ").lower() for content in contents)
        for name, contents in (row["customization_options"] or {}).items()
        if contents is not None
    }


def _first(folder: Path, patterns: Iterable[str], what: str) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: give the folder of WebShop's data files")
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            return path
    raise InputError(f"{folder}: {what} is missing: no file {' or '.join(patterns)}")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if ".jsonl" not in path.suffixes:
        yield from _load(path)
        return
    for number, line in enumerate(_text(path).rstrip("\n").split("\n"), 1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: line {number} is not JSON: {error.msg}") from None


def _load(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
