"""The settings that every kind of policy shares: prompt, sampling, model precision, API requests.

In a file of their own so that a command can declare these flags without loading torch.
"""

from typing import ClassVar, Literal

from pydantic import field_validator

from worldline.config import Config, option


class PolicyConfig(Config):
    """How a policy reads its turns and answers. Scripted policies (`expert`, `random`) ignore all of it."""

    heading: ClassVar[str] = "language models and APIs (expert and random ignore these)"

    prompt: Literal["auto", "transcript", "plain", "paper", "react"] = option(
        "auto", help="prompt template; auto: the one the checkpoint was trained with, else plain for chat models"
    )
    history: int | Literal["all"] | None = option(
        None, help="past steps in the prompt; default 2, but all for transcript and for search"
    )
    mode: Literal["generate", "choose"] = option(
        "generate", help="generate: sample free text; choose: sample among the admissible actions"
    )
    temperature: float = option(1.0, help="sampling temperature; 0 is greedy", ge=0)
    max_prompt_tokens: int = option(2048, help="longer prompts lose their oldest history first", ge=16)
    max_new_tokens: int | None = option(None, help="longest response; default 64, or 512 where it reasons", ge=1)
    dtype: Literal["float32", "bfloat16", "float16"] = option("float32", help="precision of the model")
    device: str = option("auto", help="device of the model; auto: a GPU if there is one")
    batch_tokens: int = option(65536, help="tokens in one forward pass: bounds memory", ge=1)
    cache_gib: float = option(
        4.0,
        help="memory for cached keys and values: a step of a transcript reads only its new tokens; 0: none",
        ge=0,
    )
    keep_prompts: bool = option(False, help="keep the prompt's token ids in the log (training needs them)")
    api_timeout: float = option(60.0, help="seconds one request may take in total", gt=0)
    api_retries: int = option(5, help="further attempts after a 429, a 5xx or a timeout", ge=0)
    api_backoff: float = option(0.5, help="seconds before the first retry; doubles each time", ge=0)
    api_concurrency: int | None = option(
        None, help="requests in flight at once; default 16; vllm: 256, of scored prompts 32", ge=1
    )
    tokenizer: str | None = option(
        None, help="vllm: folder or hub id of the tokenizer and config, where MODEL is only what the server calls it"
    )
    top_logprobs: int = option(
        20,
        help="vllm: log-probs sent per token, which bound its entropy; -1: all (the server needs --max-logprobs -1)",
        ge=-1,
    )

    @field_validator("history")
    @classmethod
    def _not_negative(cls, history: int | str | None) -> int | str | None:
        if isinstance(history, int) and history < 0:
            raise ValueError("must be 0 or more, or 'all'")
        return history
