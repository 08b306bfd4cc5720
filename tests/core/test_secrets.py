from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.safe_text import keep_secret, redact


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Incorrect API key provided: sk-proj-abcdef1234567890.", "abcdef1234567890"),
        ("Authorization: Bearer eyJhbGciOi.J9.sig", "eyJhbGciOi"),
        ("https://user:hunter2pass@host/v1", "hunter2pass"),
        ("GET /v1?api_key=9f8e7d6c5b", "9f8e7d6c5b"),
        ("token ghp_abcdefghijklmnop1234", "abcdefghijklmnop"),
        ("AKIAIOSFODNN7EXAMPLE was refused", "IOSFODNN7EXAMPLE"),
    ],
)
def test_what_looks_like_a_key_is_blotted_out(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


def test_the_environments_secrets_are_blotted_out_whatever_they_look_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_API_KEY", "correct horse battery")
    monkeypatch.setenv("MY_SERVICE_REGION", "eu-central-9")
    assert redact("rejected: correct horse battery in eu-central-9") == "rejected: [redacted] in eu-central-9"


@given(st.text(st.characters(categories=["Ll", "Zs"]), max_size=60))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_a_word_that_ends_like_the_beginning_of_a_key_stays():
    assert redact("pass an `api_key` or `workload_identity`") == "pass an `api_key` or `workload_identity`"


def test_a_given_key_is_blotted_out_from_eight_characters_on() -> None:
    """A shorter text may be an ordinary word, which must stay in every other message."""
    keep_secret("correct horse")
    keep_secret("a stapl")
    keep_secret("a staple")
    assert redact("the correct horse, a staplr and a staple") == "the [redacted], a staplr and [redacted]"
