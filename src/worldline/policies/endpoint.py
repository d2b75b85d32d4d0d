"""The address of an API: where requests go, and what of it may be shown.

The user, the password and the query of a URL may hold secrets, as OPENAI_API_KEY does. They are sent, never shown: not
in an error, not in a policy's name, not in a repr, even where a server repeats them in its answer.
"""

import base64
import os
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from worldline.post import public
from worldline.types import InputError

_SHORTEST_SECRET = 4
"""Shorter values of a query are no secrets, and stand in every other text."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint: what is sent there, and how it is called."""

    name: str
    """The URL as it may be shown."""
    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def at(cls, address: str, path: str = "/chat/completions", written: str = "api:MODEL@URL") -> "Endpoint":
        """The endpoint `path` under the URL `address`, with the key of OPENAI_API_KEY or the URL's user and password.

        Errors name the address as it was `written`.
        """
        try:
            parts = urlsplit(address)
            host, _ = parts.hostname, parts.port  # a port that is none raises here
        except ValueError:
            host = None
        if not host or not address.isascii() or not address.isprintable():
            raise InputError(f"{written}: the URL needs a host, perhaps a port, and ASCII characters only")
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=_joined(parts.path, path), fragment="")
        url, key = urlunsplit(parts), _key()
        user = urlsplit(address).netloc.rpartition("@")[0]
        headers = {"Content-Type": "application/json"}
        if user:
            headers["Authorization"] = f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
        elif key:
            headers["Authorization"] = f"Bearer {key}"
        return cls(public(url), url, headers, _secrets(parts, user, key))

    def redacted(self, text: str) -> str:
        """`text` without the secrets of this endpoint."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _joined(base: str, path: str) -> str:
    base = base.rstrip("/")
    return base if base.endswith(path) else base + path


def _key() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key.isascii() or not key.isprintable():
        raise InputError("OPENAI_API_KEY: holds characters that no header can: set it anew")
    return key


def _secrets(parts: SplitResult, user: str, key: str) -> tuple[str, ...]:
    """Everything that must not be shown, longest first, as it is sent and as it is meant."""
    values = [value for _, value in parse_qsl(parts.query)]
    sent = [key, user, user.partition(":")[2], parts.query, *values, *re.split("[&=]", parts.query)[1::2]]
    every = {secret for text in sent for secret in (text, unquote(text)) if len(secret) >= _SHORTEST_SECRET}
    return tuple(sorted(every, key=len, reverse=True))
