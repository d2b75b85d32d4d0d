"""The smallest server on transformers that speaks `vllm serve`'s HTTP, for tests alone.

It knows the fields of vLLM 0.32's `/v1/completions`, `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` that
worldline sends, answers in the same shape and with the same words, and refuses any other field, which vLLM would
ignore. It takes all weights by the same requests in the same order as vLLM's weight transfer; how the numbers come is
the test's affair. One token at a time, one request at a time, no cache: for tiny models.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NEUTRAL = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
FIELDS = {
    *NEUTRAL,
    "model",
    "prompt",
    "max_tokens",
    "temperature",
    "seed",
    "stop_token_ids",
    "ignore_eos",
    "logprobs",
    "logprob_token_ids",
    "return_token_ids",
    "return_tokens_as_token_ids",
}
MOST_NAMED = 128


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """Tests connect many times at once: with the default of 5 a busy machine resets some of these."""


class ServerError(Exception):
    """A refusal: its status, its words and their type, as vLLM gives them."""

    def __init__(self, status: int, words: str, kind: str = "BadRequestError") -> None:
        super().__init__(words)
        self.status, self.kind = status, kind


class WeightReceiver(Protocol):
    """The worker's side of a weight transfer."""

    def join(self, init_info: dict[str, Any]) -> None: ...

    def receive(self, update_info: dict[str, Any]) -> dict[str, torch.Tensor]: ...


class CompletionsServer:
    """Serves the checkpoint in `folder` under its path. `adapters=False`: without runtime LoRA updating."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        mode: str = "processed_logprobs",
        max_logprobs: int = 20,
        adapters: bool = True,
        receiver: WeightReceiver | None = None,
    ) -> None:
        self.folder, self.mode, self.max_logprobs, self.adapters = folder, mode, max_logprobs, adapters
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.vocabulary = self.base.config.vocab_size
        self.context = self.base.config.max_position_embeddings
        self.models: dict[str, Any] = {str(folder): self.base}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.most_at_once = self._at_once = 0
        self.expects = 1
        """Requests that must be here before any is answered; after 10 seconds they are answered nevertheless."""
        self.refuses_adapters = ""
        self.receiver = receiver
        self.paused = self.updating = False
        self.weight_version = ""
        self._arrivals, self._model_lock = threading.Condition(), threading.Lock()
        self._http = _Server(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """As a kill does: nobody listens any more."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._arrivals:
                    server.requests.append((self.path, body))
                    server._at_once += 1
                    server.most_at_once = max(server.most_at_once, server._at_once)
                    server._arrivals.notify_all()
                    server._arrivals.wait_for(lambda: server.most_at_once >= server.expects, timeout=10)
                try:
                    status, answer = 200, server.answer(self.path, body)
                except ServerError as error:
                    status = error.status
                    answer = {"error": {"message": str(error), "type": error.kind, "param": None, "code": status}}
                finally:
                    with server._arrivals:
                        server._at_once -= 1
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None: ...

        return Handler

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/v1/completions":
            return self.complete(body)
        if self.adapters and path == "/v1/load_lora_adapter":
            return self.load(**body)
        if self.adapters and path == "/v1/unload_lora_adapter":
            return self.unload(**body)
        if self.receiver is not None and not path.startswith("/v1/"):
            return self.transfer(path, body, self.receiver)
        raise ServerError(404, "Not Found", "NotFoundError")

    def transfer(self, path: str, body: dict[str, Any], receiver: WeightReceiver) -> dict[str, str]:
        """Weight transfer as vLLM's worker has it: an update is started, filled and finished, while nothing plays."""
        if path == "/pause?mode=wait":
            self.paused = True
        elif path == "/resume":
            self.paused = False
        elif not self.paused:
            raise ServerError(500, f"{path} while episodes may be playing", "InternalServerError")
        elif path == "/init_weight_transfer_engine":
            receiver.join(body["init_info"])
        elif path == "/start_weight_update":
            if self.updating:
                raise ServerError(500, "start_weight_update called while a weight update is already active.")
            self.updating = True
        elif path == "/update_weights":
            self.take(receiver, body["update_info"])
        elif path == "/finish_weight_update":
            if not self.updating:
                raise ServerError(500, "finish_weight_update called without a matching start_weight_update.")
            self.updating, self.weight_version = False, body["weight_version"]
        else:
            raise ServerError(404, "Not Found", "NotFoundError")
        return {"message": "done"}

    def take(self, receiver: WeightReceiver, update_info: dict[str, Any]) -> None:
        if not self.updating:
            raise ServerError(500, "start_weight_update must be called before update_weights.")
        own = dict(self.base.named_parameters())
        try:
            weights = receiver.receive(update_info)
        except Exception as error:
            self.updating = False
            raise ServerError(500, str(error), "InternalServerError") from error
        assert weights.keys() == own.keys()
        with self._model_lock, torch.no_grad():
            for name, weight in weights.items():
                own[name].copy_(weight)

    def load(self, lora_name: str, lora_path: str) -> str:
        from peft import PeftModel

        if self.refuses_adapters:
            raise ServerError(400, self.refuses_adapters, "InvalidUserInput")
        if lora_name in self.models:
            raise ServerError(
                400, f"The lora adapter '{lora_name}' has already been loaded. If you want to", "InvalidUserInput"
            )
        if not (Path(lora_path) / "adapter_config.json").is_file():
            words = f"Loading lora {lora_name} failed: No adapter found for {lora_path}"
            raise ServerError(404, words, "NotFoundError")
        base = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
        self.models[lora_name] = PeftModel.from_pretrained(base, lora_path).merge_and_unload().eval()
        return f"Success: LoRA adapter '{lora_name}' added successfully."

    def unload(self, lora_name: str) -> str:
        if lora_name not in self.models:
            raise ServerError(404, f"The lora adapter '{lora_name}' cannot be found.", "NotFoundError")
        del self.models[lora_name]
        return f"Success: LoRA adapter '{lora_name}' removed successfully."

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if unknown := body.keys() - FIELDS:
            raise ServerError(400, f"unknown fields {sorted(unknown)}")
        if any(body.get(name) != value for name, value in NEUTRAL.items()):
            raise ServerError(400, "this server knows no truncation and no penalties")
        if not (body.get("return_token_ids") and body.get("return_tokens_as_token_ids") and body.get("ignore_eos")):
            raise ServerError(400, "this server knows token ids only")
        if body["model"] not in self.models:
            raise ServerError(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if self.paused:
            raise ServerError(500, "paused: vLLM would let this request wait", "InternalServerError")
        named, wish = body.get("logprob_token_ids"), body["logprobs"]
        most = self.vocabulary if self.max_logprobs < 0 else min(self.max_logprobs, self.vocabulary)
        if named and len(named) > MOST_NAMED:
            raise ServerError(400, f"Requested logprob_token_ids of length {len(named)}")
        if not named and (wish > most or (wish < 0 and self.max_logprobs >= 0)):
            raise ServerError(400, f"Requested sample logprobs of {wish}, which is greater than max allowed: {most}")
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        choices = [{"index": index, **self.completion(prompt, body)} for index, prompt in enumerate(prompts)]
        return {"id": "cmpl-0", "object": "text_completion", "model": body["model"], "choices": choices, "usage": {}}

    def completion(self, prompt: list[int], body: dict[str, Any]) -> dict[str, Any]:
        if len(prompt) + 1 > self.context:
            raise ServerError(400, f"This model's maximum context length is {self.context} tokens.")
        model, temperature = self.models[body["model"]], body["temperature"]
        generator = torch.Generator().manual_seed(body.get("seed") or 0)
        ids: list[int] = []
        logprobs: list[float] = []
        tops: list[dict[str, float]] = []
        while len(ids) < body["max_tokens"] and len(prompt) + len(ids) < self.context:
            with self._model_lock, torch.inference_mode():
                logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, -1].float()
            processed = logits / temperature if temperature else logits
            chances = processed.softmax(-1)
            token = int(torch.multinomial(chances, 1, generator=generator)) if temperature else int(logits.argmax())
            shown = {
                "processed_logprobs": processed.log_softmax(-1),
                "raw_logprobs": logits.log_softmax(-1),
                "raw_logits": logits,
            }[self.mode]
            ids.append(token)
            logprobs.append(max(float(shown[token]), -9999.0))
            tops.append({f"token_id:{at}": max(float(shown[at]), -9999.0) for at in self.wished(shown, token, body)})
            if token in body.get("stop_token_ids", ()):
                break
        names = [f"token_id:{token}" for token in ids]
        shown_logprobs = {"text_offset": [0] * len(ids), "token_logprobs": logprobs, "tokens": names}
        return {
            "text": self.tokenizer.decode(ids),
            "logprobs": shown_logprobs | {"top_logprobs": tops},
            "finish_reason": "stop",
            "token_ids": ids,
            "prompt_logprobs": None,
            "prompt_token_ids": prompt,
        }

    def wished(self, shown: torch.Tensor, token: int, body: dict[str, Any]) -> list[int]:
        """The sampled token, then the named tokens, or the likeliest ones."""
        if body.get("logprob_token_ids"):
            return list(dict.fromkeys([token, *body["logprob_token_ids"]]))
        count = self.vocabulary if body["logprobs"] < 0 else body["logprobs"]
        return list(dict.fromkeys([token, *shown.topk(count).indices.tolist()]))
