"""The original's text environment beside ours, step by step.

Runs where WORLDLINE_WEBSHOP_ORIGINAL names a checkout of princeton-nlp/WebShop and flask, beautifulsoup4, thefuzz, tqdm
and rich are installed. Search and nouns are stubbed on both sides: what is compared is goals, pages, clicks and reward.
"""

import gzip
import importlib
import json
import os
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worldline.envs.webshop import WebShopWorld
from worldline.envs.webshop.engine import Place, ShoppingSession
from worldline.envs.webshop.world import CANONICAL_SEED
from worldline.types import derive_seed

EPISODES, STEPS = 300, 25
WORDS = "red shirt women's cotton easy clean wood table for living room 4 pack dairy-free"
ODD = ["look", "click[nothing]", "search[]", "click[]", "click[search]", "CLICK[back to search]", "click[a[b]]"]


def search_results(query: str, asins: list[str]) -> list[str]:
    rng = random.Random(derive_seed(query))
    return rng.sample(asins, rng.choice((0, 3, 10, 25, 50, 50, 50, 50)))


def nouns(title: str) -> list[str]:
    return [word.lower() for word in title.split() if len(word) > 3]


@pytest.fixture
def original(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The original's environment on the shipped products, with what it imports and we stub put in its way."""
    checkout = os.environ.get("WORLDLINE_WEBSHOP_ORIGINAL")
    if not checkout:
        pytest.skip("needs WORLDLINE_WEBSHOP_ORIGINAL: a checkout of princeton-nlp/WebShop")
    for name in ("flask", "bs4", "thefuzz", "tqdm", "rich"):
        pytest.importorskip(name, reason=f"the original needs {name}")
    folder = shared_data / "webshop"
    items = tmp_path / "items.json"
    items.write_bytes(gzip.decompress((folder / "items_shuffle_1000.reconstructed.json.gz").read_bytes()))
    asins = sorted(row["asin"] for row in json.loads(items.read_text()))

    class Searcher:
        def __init__(self, path: str) -> None: ...

        def search(self, query: str, k: int) -> list[Any]:
            return [types.SimpleNamespace(docid=asin) for asin in search_results(query, asins)]

        def doc(self, asin: str) -> Any:
            return types.SimpleNamespace(raw=lambda: json.dumps({"id": asin}))

    def tag(title: str) -> list[Any]:
        kept = nouns(title)
        return [types.SimpleNamespace(text=word, pos_="NOUN") for word in kept]

    stubs: dict[str, dict[str, Any]] = {
        "gym": {"Env": object},
        "torch": {},
        "cleantext": {},
        "rank_bm25": {"BM25Okapi": None},
        "spacy": {"load": lambda name: tag},
        "pyserini": {},
        "pyserini.search": {},
        "pyserini.search.lucene": {"LuceneSearcher": Searcher},
        "web_agent_site.envs": {"__path__": [str(Path(checkout) / "web_agent_site" / "envs")]},
    }
    for name, content in stubs.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(checkout)
    engine = importlib.import_module("web_agent_site.engine.engine")
    monkeypatch.setattr(engine, "DEFAULT_ATTR_PATH", str(folder / "items_ins_v2_1000.json"))
    monkeypatch.setattr(engine, "HUMAN_ATTR_PATH", str(folder / "items_human_ins_subset13.json"))
    draw = engine.generate_product_prices

    def seeded(products: Any) -> Any:
        random.seed(CANONICAL_SEED)  # the original leaves this unseeded
        return draw(products)

    monkeypatch.setattr(engine, "generate_product_prices", seeded)
    text_env = importlib.import_module("web_agent_site.envs.web_agent_text_env")
    yield text_env.WebAgentTextEnv(observation_mode="text", file_path=str(items), num_products=1000, human_goals=0)
    for name in [name for name in sys.modules if name.startswith("web_agent_site")]:
        del sys.modules[name]


def choose(rng: random.Random, page: dict[str, Any]) -> str:
    chance = rng.random()
    if chance < 0.04:
        return rng.choice(ODD)
    if chance < 0.12 or page["has_search_bar"] or not page["clickables"]:
        return f"search[{' '.join(rng.choices(WORDS.split(), k=rng.randint(1, 4)))}]"
    clicks = page["clickables"]
    return f"click[{rng.choices(clicks, [3 if name == 'buy now' else 1 for name in clicks])[0]}]"


def our_page(session: ShoppingSession) -> dict[str, Any]:
    clicks = [action[len("click[") : -1] for action in session.admissible]
    return {
        "has_search_bar": session.place is Place.START,
        "clickables": ["search"] if session.place is Place.START else clicks,
    }


@pytest.mark.data
def test_no_difference_over_random_episodes(original: Any, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = WebShopWorld(shared_data / "webshop", nouns=nouns)
    asins = sorted(product.asin for product in world.catalogue.products)
    monkeypatch.setattr(
        world.catalogue, "search", lambda query: tuple(world.catalogue[asin] for asin in search_results(query, asins))
    )
    goals = [world.tasks[task] for split in ("test", "dev", "train") for task in world.tasks.of(split)]
    theirs = [(goal["asin"], goal["instruction_text"], goal["price_upper"]) for goal in original.server.goals]
    assert [(goal.product.asin, goal.instruction, goal.price_upper) for goal in goals] == theirs
    rng = random.Random(7)
    bought = 0
    for _ in range(EPISODES):
        index = rng.randrange(len(goals))
        session = ShoppingSession(world.catalogue, goals[index], nouns)
        original.server.user_sessions.clear()
        assert original.reset(session=index)[0] == session.observation
        for _ in range(STEPS):
            page = original.get_available_actions()
            assert page == our_page(session)
            action = choose(rng, page)
            observation, reward, done, _ = original.step(action)
            session.act(action)
            assert (observation, reward, done) == (session.observation, session.score, session.done), action
            if done:
                bought += 1
                break
    assert bought > EPISODES / 2
