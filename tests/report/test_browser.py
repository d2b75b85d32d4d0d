"""The viewer in a real browser: links, keys, side by side, growth, a phone; no console error, no request elsewhere.

Needs Playwright (`pip install playwright`) and Chromium: `playwright install chromium`, or one on the PATH, or in
$CHROMIUM.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from report_material import episode, write_log

from worldline.report.server import serve
from worldline.types import Step, Trajectory

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")


def _launched(maker: Any) -> Any:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    try:
        return maker.chromium.launch(executable_path=path, args=["--no-sandbox"])
    except playwright.Error as error:
        pytest.skip(f"no Chromium that starts: {str(error).splitlines()[0]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as maker:
        launched = _launched(maker)
        yield launched
        launched.close()


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page of a server of its own; every console error and every request elsewhere fails the test."""
    server = serve([tmp_path], 0)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    wrong: list[str] = []
    contexts = []

    def start(where: str, width: int = 1400) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(root) else wrong.append(request.url))
        page.goto(root + where)
        page.wait_for_load_state("networkidle")
        return page

    yield start
    for context in contexts:
        context.close()
    server.shutdown()
    server.server_close()
    assert wrong == []


@pytest.fixture(autouse=True)
def log(tmp_path: Path) -> Path:
    """Sixty tasks, each played by two policies; v3 fails every third and goes another way there."""
    episodes = []
    for number in range(60):
        for policy in ("v2", "v3"):
            failed = policy == "v3" and number % 3 == 0
            steps = tuple(
                Step(
                    observation=f"room {k} of task {number}",
                    action="turn back" if failed and k == 2 else f"go to room {k + 1}",
                    admissible=("turn back", f"go to room {k + 1}"),
                    logprob=-0.6931471805599453,
                    reward=float(k == 3 and not failed),
                )
                for k in range(4)
            )
            episodes.append(
                Trajectory(
                    id=f"{policy}-{number:03d}", env="maze", task_id=f"task-{number:03d}", goal="find the kettle",
                    policy=policy, steps=steps, final_observation="lost" if failed else "there", terminated=True,
                    success=not failed, meta={"steps.thought": '["Where am I?", "", "", ""]'},
                )
            )  # packed lines read better  # fmt: skip
    return write_log(tmp_path / "log", episodes)


def pane(page: Any) -> str:
    return str(page.inner_text("#episode"))


def waited(page: Any, words: str, where: str = "#episode") -> None:
    page.wait_for_function("([w, t]) => document.querySelector(w)?.innerText.includes(t)", arg=[where, words])


def test_an_episode_shows_numbers_thoughts_probabilities_and_rewards(opened: Open) -> None:
    page = opened("/episodes?at=0")
    waited(page, "task-000")
    text = pane(page)
    assert "1 agent" in text and "4 agent" in text
    assert "Where am I?" in text and "p 0.5" in text and "reward 1" in text and "2 admissible actions" in text
    assert "120 episodes; 120 match, 50 listed" in page.inner_text("#count")


def test_a_link_names_log_filter_and_episode(opened: Open, log: Path) -> None:
    page = opened("/episodes?at=0")
    waited(page, "task-000")
    page.select_option("select[name=policy]", "v3")
    page.select_option("select[name=success]", "false")
    waited(page, "failure")
    page.wait_for_function("() => document.querySelector('#count').innerText.includes('20 match')")
    page.click("tbody tr:nth-child(3)")
    waited(page, "task-006")
    query = parse_qs(urlsplit(page.url).query)
    assert query["log"] == [str(log)] and query["policy"] == ["v3"] and query["success"] == ["false"]
    assert query["id"] == ["v3-006"]
    again = opened(page.url.split("/", 3)[3].join(["/", ""]))
    waited(again, "task-006")
    assert again.input_value("select[name=policy]") == "v3"
    assert again.locator("tbody tr").count() == 20
    assert again.inner_text("tbody tr.open td:first-child") == "task-006"


def test_keys(opened: Open) -> None:
    page = opened("/episodes?at=0")
    waited(page, "id v2-000")
    page.keyboard.press("j")
    waited(page, "id v3-000")
    page.keyboard.press("j")
    waited(page, "id v2-001")
    page.keyboard.press("k")
    waited(page, "id v3-000")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#episode .say.now").first.get_attribute("data-step") == "1"
    page.keyboard.press("ArrowLeft")
    assert page.locator("#episode .say.now").first.get_attribute("data-step") == "0"
    page.keyboard.press("/")
    page.keyboard.type("task 59")
    page.keyboard.press("Enter")
    waited(page, "task-059")
    assert page.locator("tbody tr").count() == 2
    assert page.evaluate("document.activeElement.tagName") != "INPUT"


def test_a_filter_that_matches_nothing_shows_nothing_old(opened: Open) -> None:
    page = opened("/episodes?at=0")
    waited(page, "task-000")
    page.fill("input[name=text]", "no such words")
    page.press("input[name=text]", "Enter")
    page.wait_for_function("() => document.querySelector('#sides').innerText.includes('No episode matches')")
    assert "task-000" not in page.inner_text("#pane")
    assert page.locator("tbody tr").count() == 0


def test_two_policies_on_one_task_side_by_side_with_their_differences(opened: Open, tmp_path: Path) -> None:
    imagined = episode(1, policy="v2", goal="find the kettle").model_copy(
        update={"env": "maze", "task_id": "task-003", "id": "dreamt"}
    )
    write_log(tmp_path / "imagined", [imagined])
    page = opened("/episodes?log=" + str(tmp_path / "log") + "&id=v2-003")
    waited(page, "id v2-003")
    page.wait_for_selector("#choice:not([hidden])")
    page.keyboard.press("b")
    page.wait_for_selector("#rival")
    waited(page, "id v3-003", "#rival")
    marked = page.locator("#episode .say.agent.differs").all_inner_texts()
    assert len(marked) == 1 and "go to room 3" in marked[0]
    assert "turn back" in page.locator("#rival .say.agent.differs").inner_text()
    page.keyboard.press("b")
    waited(page, "id dreamt", "#rival")
    assert "imagined" in page.inner_text("#rival")
    again = opened("/" + page.url.split("/", 3)[3])
    waited(again, "id dreamt", "#rival")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('#rival')")


def test_a_log_that_grows_shows_it_by_itself(opened: Open, log: Path) -> None:
    page = opened("/episodes?at=0&success=unknown")
    assert page.locator("tbody tr").count() == 0
    everything = opened("/episodes?at=0")
    waited(everything, "task-000")
    write_log(log, [episode(7, None)])
    everything.wait_for_selector("#grown:not([hidden])", timeout=10_000)
    assert "1 new episodes" in everything.inner_text("#grown")
    everything.click("#grown")
    everything.wait_for_function("() => document.querySelector('#count').innerText.includes('121 episodes')")


def test_on_a_phone_an_episode_is_its_own_page(opened: Open) -> None:
    page = opened("/episodes?at=0", width=390)
    page.wait_for_selector("tbody tr")
    assert not page.is_visible("#pane")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("tbody tr:first-child td.words").bounding_box()["width"] > 50
    page.click("tbody tr:nth-child(2)")
    page.wait_for_url("**single=1**")
    waited(page, "id v3-000")
    assert not page.is_visible("#list")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#next")
    waited(page, "id v2-001")
    page.click("#back")
    page.wait_for_selector("tbody tr")


def test_long_names_do_not_push_the_columns_out(opened: Open, log: Path) -> None:
    long = episode(1, policy="p" * 90).model_copy(update={"task_id": "t" * 300, "id": "long"})
    write_log(log, [long])
    page = opened("/episodes?at=0&text=room+1")
    page.wait_for_selector("tbody tr")
    page.fill("input[name=text]", "room 1")
    box = page.locator("#list .scroll").bounding_box()
    inner = page.evaluate("document.querySelector('#list table').scrollWidth")
    assert inner <= box["width"] + 1


def test_a_running_training_loads_itself_again(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"update": 1, "success": 0.5}\n')
    page = opened("/")
    assert page.locator("meta[http-equiv=refresh]").count() == 1
    past = time.time() - 3600
    os.utime(tmp_path / "run" / "metrics.jsonl", (past, past))
    page.reload()
    assert page.locator("meta[http-equiv=refresh]").count() == 0
