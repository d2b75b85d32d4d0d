"""A catalogue small enough to check by hand."""

from worldline.envs.webshop.catalogue import Catalogue
from worldline.envs.webshop.goals import Goal
from worldline.envs.webshop.product import Product


def product(asin: str, title: str, **fields: object) -> Product:
    given: dict[str, object] = {
        "description": "",
        "bullets": ("",),
        "pricing": (10.0,),
        "price": 10.0,
        "options": {},
        "attributes": (),
        "category": "home",
        "query": "towels",
        "product_category": "Home › Bath › Towels",
    }
    return Product(asin=asin, title=title, **{**given, **fields})  # type: ignore[arg-type]  # fields of several types


TOWEL = product(
    "B000000001",
    "Soft Cotton Towel",
    description="  Dries fast.  ",
    bullets=("Machine Wash ", "  ", "\n"),
    pricing=(8.0, 12.5),
    price=9.25,
    options={"color": ("navy", "off white"), "size": ("small", "large")},
    attributes=("machine washable",),
)
MUG = product(
    "B000000002",
    "Stoneware Mug",
    query="mugs",
    product_category="Home › Dining › Mugs",
    options={"style": ("features", "navy"), "color": ("navy",)},
)
FILLERS = tuple(product(f"B0000001{i:02d}", f"Cotton Cloth Number {i}") for i in range(12))
CATALOGUE = Catalogue([TOWEL, MUG, *FILLERS])
GOAL = Goal(
    TOWEL,
    "Find me machine washable towels with color: navy, and size: large, and price lower than 20.00 dollars",
    ("machine washable",),
    (("color", "navy"), ("size", "large")),
    20.0,
)
