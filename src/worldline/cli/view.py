"""`worldline view`: what some folders hold, in a local browser."""

import webbrowser
from pathlib import Path
from typing import ClassVar

from worldline.cli.verb_result import VerbResult, note
from worldline.config import Config, option, positional
from worldline.report.server import serve


class ViewConfig(Config):
    """List the evaluations, runs, world models and logs under some paths; show reports and page through episodes.

    Serves this machine only, reads only, and ends with Ctrl-C.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline view demo/",
        "worldline view runs/ logs/ --port 9000 --no-browser",
    )

    path: tuple[Path, ...] = positional(help="folders or files, as for report")
    port: int = option(8765, help="where to serve; 0: any free port", ge=0, le=65535)
    browser: bool = option(True, help="open a browser; --no-browser: do not")


Settings = ViewConfig


def run(settings: ViewConfig) -> VerbResult:
    server = serve(settings.path, settings.port)
    url = f"http://127.0.0.1:{server.server_port}/"
    note(f"{url}  (Ctrl-C ends it)")
    if settings.browser:
        webbrowser.open(url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return VerbResult({"url": url}, ())
