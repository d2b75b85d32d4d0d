"""Screenshots of every page of the viewer at 1400 and 390 pixels, light and dark, to look at before a release.

python docs/screenshots.py FOLDER_WITH_RESULTS [--out shots]      # needs `pip install playwright` and a Chromium
"""

import argparse
import os
import shutil
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from worldline.report.server import Shelf, serve

WIDTHS, SCHEMES = (1400, 390), ("light", "dark")


def pages(folder: Path) -> dict[str, str]:
    """Every page by a name for its file."""
    where = {"list": "/"}
    for at, source in enumerate(Shelf([folder]).sources):
        name = f"{at}-{source.kind.replace(' ', '-')}"
        where[name] = f"/report?at={at}"
        if source.kind == "log":
            where[f"{name}-episodes"] = f"/episodes?at={at}"
    return where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("shots"))
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    server = serve([words.folder], 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as maker:
        browser = maker.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in WIDTHS:
            for scheme in SCHEMES:
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page = context.new_page()
                for name, where in pages(words.folder).items():
                    page.goto(f"http://127.0.0.1:{server.server_port}{where}")
                    page.wait_for_timeout(800)
                    page.screenshot(path=words.out / f"{name}-{width}-{scheme}.png")
                    print(words.out / f"{name}-{width}-{scheme}.png")
                context.close()
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()
