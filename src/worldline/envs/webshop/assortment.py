"""What the generated shop sells: kinds of products with what they can be, come in, and cost. Data, and the noun
finder that goes with its titles."""

from collections.abc import Mapping
from dataclasses import dataclass

from worldline.envs.webshop.nouns import title_nouns

_COLOUR_NAMES = "black white navy grey red green beige pink yellow purple teal brown orange ivory"
COLOURS = tuple(_COLOUR_NAMES.split())
CLOTHES = ("petite", "small", "medium", "large", "oversized")
SHOES = ("6", "7", "8", "9", "10", "11")


@dataclass(frozen=True, slots=True)
class ProductKind:
    """One sort of product. `noun` is how titles name it, `also` how a shopper may."""

    noun: str
    also: str
    shelf: str
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    uses: tuple[str, ...]
    cheap: float
    dear: float


def _kind(
    noun: str,
    also: str,
    shelf: str,
    attributes: str,
    options: Mapping[str, str],
    uses: str,
    prices: tuple[float, float],
) -> ProductKind:
    pools = {"COLOURS": COLOURS, "CLOTHES": CLOTHES, "SHOES": SHOES}
    return ProductKind(
        noun,
        also,
        shelf,
        tuple(attributes.split(", ")),
        {name: pools.get(values) or tuple(values.split(", ")) for name, values in options.items()},
        tuple(uses.split(", ")),
        *prices,
    )


_COLOUR_AND_SIZE = {"color": "COLOURS", "size": "CLOTHES"}
_HOME, _BEAUTY, _FOOD = "Home & Kitchen", "Beauty & Personal Care", "Grocery & Gourmet Food"
_CLOTHING, _TECH, _SPORT = "Clothing, Shoes & Jewelry", "Electronics", "Sports & Outdoors"

KINDS: tuple[ProductKind, ...] = (
    _kind("Throw Blanket", "blanket", f"{_HOME} › Bedding › Blankets",
          "machine washable, super soft, double sided, fade resistant, easy care, wrinkle free, hypoallergenic",
          {"color": "COLOURS", "size": "50 x 60, 60 x 80, 90 x 108"}, "living room, guest bed, camping", (18, 70)),
    _kind("Window Curtains", "curtains", f"{_HOME} › Window Treatments › Curtains",
          "blackout, machine washable, thermal insulated, noise reducing, easy install, rod pocket, eco friendly",
          {"color": "COLOURS", "length": "63 inch, 84 inch, 95 inch, 108 inch"},
          "bedroom, dining room, nursery", (15, 60)),
    _kind("Area Rug", "rug", f"{_HOME} › Rugs › Area Rugs",
          "non slip, stain resistant, high density, easy clean, low pile, water absorbent, pet friendly",
          {"color": "COLOURS", "shape": "round, square, runner"}, "living room, entryway, home office", (35, 180)),
    _kind("Table Lamp", "lamp", f"{_HOME} › Lighting › Table Lamps",
          "energy efficient, touch control, usb charging, flicker free, mid century, assembly free, eye protecting",
          {"color": "COLOURS", "bulb": "warm, cool, tunable"}, "bedside, reading corner, study desk", (20, 95)),
    _kind("Office Chair", "desk chair", f"{_HOME} › Furniture › Office Chairs",
          "lumbar support, heavy duty, height adjustable, easy assemble, memory foam, high back, tilt lock",
          {"color": "COLOURS", "armrest": "fixed, flip up, none"}, "home office, gaming room, studio", (75, 310)),
    _kind("Bath Towels", "towel set", f"{_HOME} › Bath › Towels",
          "quick drying, highly absorbent, lint free, fade resistant, machine washable, organic cotton, extra thick",
          {"color": "COLOURS", "count": "2 pack, 4 pack, 6 pack, 8 pack"}, "spa, gym, guest bathroom", (14, 58)),
    _kind("Storage Basket", "basket", f"{_HOME} › Storage › Baskets",
          "space saving, hand woven, heavy duty, easy carry, water resistant, eco friendly, lead free",
          {"color": "COLOURS", "size": "small, medium, large"}, "closet, laundry room, toy shelf", (12, 48)),
    _kind("Coffee Mug", "mug", f"{_HOME} › Dining › Mugs",
          "dishwasher safe, bpa free, lead free, leak proof, double walled, microwave safe, hand painted",
          {"color": "COLOURS", "capacity": "11 ounce, 15 ounce, 20 ounce"}, "office, travel, gift giving", (9, 34)),
    _kind("Face Moisturizer", "face cream", f"{_BEAUTY} › Skin Care › Moisturizers",
          "fragrance free, cruelty free, oil free, dermatologist tested, paraben free, fast absorbing, anti aging",
          {"size": "1 ounce, 3 ounce, 16 ounce", "skin": "dry, oily, sensitive"},
          "daily use, night care, winter", (8, 62)),
    _kind("Shampoo", "hair wash", f"{_BEAUTY} › Hair Care › Shampoo",
          "sulfate free, cruelty free, color safe, anti dandruff, paraben free, long lasting, tea tree",
          {"scent": "lavender, mint, coconut, citrus, unscented", "size": "8 ounce, 12 ounce, 33 ounce"},
          "damaged hair, dry scalp, curly hair", (7, 36)),
    _kind("Lip Balm", "lip care", f"{_BEAUTY} › Skin Care › Lip Care",
          "long lasting, cruelty free, sun protecting, paraben free, vegan friendly, dermatologist tested, easy apply",
          {"flavor": "vanilla, cherry, peach, mint, honey", "count": "1 pack, 3 pack, 6 pack"},
          "chapped lips, winter, outdoor sports", (4, 24)),
    _kind("Scented Candle", "candle", f"{_HOME} › Decor › Candles",
          "long lasting, lead free, soy wax, hand poured, clean burning, eco friendly, smoke free",
          {"scent": "lavender, vanilla, cedar, citrus, jasmine", "size": "7 ounce, 14 ounce, 22 ounce"},
          "living room, meditation, gift giving", (9, 44)),
    _kind("Green Tea", "tea", f"{_FOOD} › Beverages › Tea",
          "caffeine free, sugar free, non gmo, hand picked, gluten free, shelf stable, usda organic",
          {"flavor": "jasmine, lemon, ginger, mint, peach", "count": "20 pack, 50 pack, 100 pack"},
          "morning, iced drinks, afternoon break", (6, 38)),
    _kind("Protein Bars", "snack bars", f"{_FOOD} › Snacks › Nutrition Bars",
          "gluten free, low sugar, plant based, soy free, high protein, dairy free, keto friendly",
          {"flavor": "chocolate, peanut, vanilla, coconut, caramel", "count": "5 pack, 12 pack, 24 pack"},
          "hiking, breakfast, workout", (9, 52)),
    _kind("Trail Mix", "nut mix", f"{_FOOD} › Snacks › Nuts",
          "low sodium, gluten free, non gmo, resealable, artificial free, dairy free, kosher certified",
          {"flavor": "honey, chocolate, spicy, salted", "size": "8 ounce, 26 ounce, 40 ounce"},
          "hiking, school lunch, road trip", (7, 42)),
    _kind("Running Shoes", "sneakers", f"{_CLOTHING} › Shoes › Athletic",
          "non slip, arch support, moisture wicking, slip on, memory foam, shock absorbing, rubber sole",
          {"color": "COLOURS", "size": "SHOES"}, "trail, gym, daily walking", (32, 140)),
    _kind("Rain Jacket", "raincoat", f"{_CLOTHING} › Outerwear › Jackets",
          "wind proof, quick drying, machine washable, packable, hooded, fleece lined, reflective",
          _COLOUR_AND_SIZE, "travel, cycling, camping", (28, 125)),
    _kind("Crew Socks", "socks", f"{_CLOTHING} › Hosiery › Socks",
          "moisture wicking, arch support, odor resistant, seamless toe, cushioned, machine washable, merino wool",
          {"color": "COLOURS", "count": "3 pack, 6 pack, 10 pack"}, "hiking, office wear, running", (8, 36)),
    _kind("Hooded Sweatshirt", "hoodie", f"{_CLOTHING} › Outerwear › Hoodies",
          "fleece lined, machine washable, long sleeve, classic fit, kangaroo pocket, tagless, shrink resistant",
          _COLOUR_AND_SIZE, "daily wear, jogging, chilly evenings", (18, 72)),
    _kind("Laptop Backpack", "backpack", f"{_TECH} › Accessories › Bags",
          "water resistant, anti theft, usb charging, heavy duty, easy carry, lightweight frame, padded straps",
          {"color": "COLOURS", "screen": "13 inch, 15 inch, 17 inch"}, "college, business trip, commuting", (24, 98)),
    _kind("Wireless Earbuds", "earphones", f"{_TECH} › Audio › Headphones",
          "noise cancelling, fast charging, sweat proof, touch control, long lasting, deep bass, hands free",
          {"color": "COLOURS", "tips": "foam, silicone"}, "running, calls, air travel", (19, 165)),
    _kind("Phone Case", "phone cover", f"{_TECH} › Accessories › Cases",
          "shock proof, scratch resistant, wireless charging, ultra thin, fingerprint free, raised bezel, card slot",
          {"color": "COLOURS", "model": "alpha, nova, vertex, zenith"}, "daily use, outdoor work, travel", (7, 39)),
    _kind("Yoga Mat", "exercise mat", f"{_SPORT} › Fitness › Mats",
          "non slip, extra thick, eco friendly, easy clean, sweat proof, latex free, easy carry",
          {"color": "COLOURS", "thickness": "4 mm, 6 mm, 10 mm, 12 mm"}, "pilates, stretching, home gym", (14, 75)),
    _kind("Water Bottle", "flask", f"{_SPORT} › Hydration › Bottles",
          "leak proof, bpa free, vacuum insulated, dishwasher safe, wide mouth, easy carry, sweat proof",
          {"color": "COLOURS", "capacity": "18 ounce, 32 ounce, 64 ounce"}, "gym, school, hiking", (11, 46)),
)  # packed lines read better  # fmt: skip

_ATTRIBUTE_WORDS = frozenset(word for kind in KINDS for attribute in kind.attributes for word in attribute.split())


def kind_nouns(title: str) -> tuple[str, ...]:
    """The nouns of a generated title: brand, kind and use. A shared attribute is not a kind."""
    return tuple(noun for noun in title_nouns(title) if noun not in _ATTRIBUTE_WORDS)
