"""What of an API's address is sent, and that none of its secrets is shown."""

import pytest

from worldline import policies
from worldline.policies.endpoint import Endpoint
from worldline.post import public
from worldline.types import InputError


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("address", "url", "name"),
    [
        ("http://h:8000/v1", "http://h:8000/v1/chat/completions", "http://h:8000/v1/chat/completions"),
        ("http://h/v1/?api-key=S3CRET", "http://h/v1/chat/completions?api-key=S3CRET", "http://h/v1/chat/completions"),
        ("https://h?k=S3CRET", "https://h/chat/completions?k=S3CRET", "https://h/chat/completions"),
        ("http://h/chat/completions/?k=v#f", "http://h/chat/completions?k=v", "http://h/chat/completions"),
        ("http://user:pa@ss@[::1]:8/v1", "http://[::1]:8/v1/chat/completions", "http://[::1]:8/v1/chat/completions"),
    ],
)
def test_the_path_is_joined_before_the_query(address: str, url: str, name: str) -> None:
    endpoint = Endpoint.at(address)
    assert (endpoint.url, endpoint.name) == (url, name)
    assert "S3CRET" not in repr(endpoint)
    assert "pa@ss" not in repr(endpoint)


def test_user_and_password_go_into_a_header() -> None:
    assert (
        Endpoint.at("http://Aladdin:open%20sesame@h").headers["Authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    )


def test_what_a_server_repeats_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456\n")
    endpoint = Endpoint.at("http://user:hunter2@h/v1?api-key=S3%2BCRET&v=1")
    text = "no user:hunter2 hunter2, no sk-0123456, no ?api-key=S3%2BCRET&v=1, no S3+CRET, but v1"
    assert endpoint.redacted(text) == "no *** ***, no ***, no ?***, no ***, but v1"


@pytest.mark.parametrize(
    "address", ["http://h:port/S3CRET", "http://:8000/S3CRET", "http://h/ü?k=S3CRET", "http://[h/S3CRET"]
)
def test_bad_addresses_are_refused_without_being_shown(address: str) -> None:
    with pytest.raises(InputError, match="the URL needs a host") as error:
        Endpoint.at(address)
    assert "S3CRET" not in str(error.value)


def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-012\n345")
    with pytest.raises(InputError, match="^OPENAI_API_KEY: ") as error:
        Endpoint.at("http://h")
    assert "012" not in str(error.value)


def test_public_names() -> None:
    assert public("http://u:p@h/v1?k=S#f") == "http://h/v1"
    assert policies.public_name("api:m@http://u:p@h/v1?k=S") == "api:m@http://h/v1"
    assert policies.public_name("hf:runs/what?/model") == "hf:runs/what?/model"
