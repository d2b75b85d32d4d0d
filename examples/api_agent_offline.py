"""An API agent scored offline: without log-probabilities it is compared, and a new one valued in a world model.

python examples/api_agent_offline.py [FOLDER]      # one to two minutes on two cores

The API is a stand-in on this machine: three models of different care, that answer as an OpenAI-compatible server does.
"""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import worldline

CARE = {"v1": 5, "v2": 8, "v3": 9}
"""In how many of ten turns a model goes the right way."""


class StandIn(BaseHTTPRequestHandler):
    """POST /v1/chat/completions."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        luck = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[0] % 10
        message = {"role": "assistant", "content": "up" if luck < CARE[body["model"]] else "down"}
        reply = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *words: object) -> None:
        """Nothing: the terminal is the user's."""


@contextmanager
def stand_in() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def run(folder: Path, episodes: int = 120, rollouts: int = 20) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    world = "own_environment:Stairs"
    with stand_in() as url:
        for model in ("v1", "v2"):
            agent = f"api:{model}@{url}"
            print(worldline.collect(world, agent, name=model, episodes=episodes, prompt="plain", out=folder / "log"))
        print(worldline.compare(folder / "log", policies=["v1", "v2"]).answer)

        # v3 never ran. It cannot be scored either: an API gives no log-probabilities of what it did not say.
        candidates = {"policy": [f"v3=api:v3@{url}"], "log": [folder / "log"], "env": world, "prompt": "plain"}
        refused = worldline.evaluate(**candidates, estimators=["wis", "naive"]).value("v3", "wis")
        print("wis", refused.doubt)
        worldline.fit(folder / "log", folder / "wm", members=0)
        imagined = worldline.evaluate(
            **candidates, world_model=folder / "wm", estimators=["wm"], refit=False, rollouts=rollouts
        )
        value = imagined.value("v3", "wm")
        print(f"v3 by wm: {value.value:.2f} [{value.low:.2f}, {value.high:.2f}]")
        print("in truth:", worldline.collect(world, f"api:v3@{url}", name="v3", episodes=episodes, prompt="plain"))


if __name__ == "__main__":
    here = Path(sys.argv[1] if len(sys.argv) > 1 else "api-agent")
    here.mkdir(parents=True, exist_ok=True)
    run(here)
