"""Text that is safe to store and show: JSON that every parser accepts, without secrets.

Registered keys, secrets in environment variables, passwords in URLs, values under names such as ``api_key``, and tokens
in well-known forms are redacted. The token patterns follow the plugins of Yelp's detect-secrets (Apache-2.0) and the
prefixes that vendors document. Every quantifier is bounded to limit matching time.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED_NUL = "\\u0000"


def plain_text(text: str) -> str:
    """``text`` with NUL and lone surrogates, which databases and JSON parsers reject, replaced by U+FFFD."""
    return str(text) if _is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def plain_texts(texts: Iterable[Any]) -> list[str]:
    """``plain_text`` for many texts; one search over all of them, because replacements are rare."""
    column = list(texts)
    if set(map(type, column)) != {str}:
        column = list(map(str, column))
    return column if _is_storable("".join(column)) else list(map(plain_text, column))


def _is_storable(text: str) -> bool:
    """Whether ``_UNSTORABLE`` has no match; ten times as fast as searching."""
    try:
        return "\0" not in text and (text.isascii() or bool(text.encode()))
    except UnicodeEncodeError:
        return False


def plain(value: Any) -> Any:
    """``value`` as str, int, finite float, bool, None, list and dict only; NaN and ``pandas.NA`` become None.

    A set becomes a sorted list, a dataclass a dict of the fields that it is compared by.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain_text(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=repr)
    if is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in fields(value) if field.compare})
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return plain(value.tolist())
    text = plain_text(str(value))
    return None if text in ("<NA>", "NaT") else text


def as_json(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON text; non-ASCII letters are not escaped."""
    try:  # most values need no conversion, which is ten times as slow as serialising
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=plain)
    except (TypeError, ValueError):
        text = _ESCAPED_NUL
    if _ESCAPED_NUL in text or not _is_storable(text):
        return json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return text


_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_REDACTED = "[redacted]"
_SHORTEST = 8
_LONGEST_MESSAGE = 300
_known: set[str] = set()

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_ADDRESS = re.compile(
    r"(?<=://)[^\s/:@?#'\"<>]{0,300}:[^\s/?#'\"<>]{0,300}@"  # user:password@ or :password@, up to the last @
    r"|(?<=://)[^\s/:@?#'\"<>]{0,300}:(?!\d{1,5}[/?#])[^\s@'\"<>]{0,300}@"  # a password that contains /
    r"|(?:(?<=http://)|(?<=https://))(?!git@)[^\s/:@?#'\"<>]{1,300}@"  # a token instead of user and password
)
_SHAPED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|gsk|xai|nvapi|pplx|tvly|hf|r8|fw|glpat|gldt|glft|glsoat|glrt|npm|dapi|shpat|shpss|whsec|dop_v1|rnd"
    r"|gh[pousr]|github_pat|dckr_pat|lsv2|pypi|sq0[a-z]{3}|GOCSPX|figd|key|pcsk|csk|tgp_v1)[-_]"
    r"(?=[\w\-]{0,200}(?:[0-9A-Z]|[a-z]{20}))[\w\-]{12,}"
    r"|(?:AIza|dapi)(?=[\w\-]{0,60}\d)[\w\-]{12,}"
    r"|(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{12,}"
    r"|pa-(?=[\w\-]{0,200}\d)[\w\-]{30,}"
    r"|xox[a-z]-[\w\-]{8,}|xapp-[\w\-]{8,}"
    r"|eyJ[\w\-]{5,}\.[\w\-=]{2,}(?:\.[\w\-.+/=]*)?|eyJ[\w\-]{20,}"
    r"|ya29\.[\w\-]{12,}|SG\.[\w\-]{16,}\.[\w\-]{16,}"
    r"|(?:AC|SK)[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}|\d{8,10}:[\w\-]{35}"
    r"|[MNO][\w\-]{23,25}\.[\w\-]{6}\.[\w\-]{27,}"
    r")"
)
_HEADER = re.compile(
    r"(?P<kept>\b(?:authorization\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?\w{5,9}|bearer)[\s:=]{1,3})"
    r"(?=[\w.~+/=\-]{0,200}[0-9A-Z_.=+/\-](?!\s|$)|[\w\-]{10})[\w.~+/=\-]{6,}",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?P<kept>(?:(?<![A-Za-z0-9])[\w\-]{0,40}?(?:pass(?:word|wd|phrase|code)|pwd(?!\s?[:=]\s?[/~.])|secret|credentials?|пароль"
    r"|(?:api|secret|access|account|private|shared|signing|encryption|subscription|master|license)[_-]?key(?:[_-]?id)?"
    r"|token|токен|jwt|cookie|session_?id|signature|authorization)"
    r"|[?&](?:key|k|code|x-(?:amz|goog)-[a-z\-]{1,30})|\bsig)\\?[\"']?\s{0,3})"
    r"(?P<sep>(?:=|:(?=\s{0,3}(?:\\?[\"']|[^\s\d]{0,99}\d)))\s{0,3}(?P<quote>\\?[\"'])?)"
    r"(?!\[redacted\]|none|null|true|false|required|os\.|[$<{*])"
    r"(?(quote)(?:\\[^\"']|[^\"'\\\n]){4,4000}(?=(?P=quote))|[^\s&,;'\"\\]{4,})",
    re.IGNORECASE,
)


def keep_secret(secret: object) -> None:
    """Redact ``secret`` from now on. It is a key, or a model object whose pydantic secrets are used."""
    attributes = list(getattr(secret, "__dict__", {}).values())
    revealed = [reveal() for value in attributes if callable(reveal := getattr(value, "get_secret_value", None))]
    _known.update(value for value in (secret, *revealed) if isinstance(value, str) and len(value) >= _SHORTEST)


def redact(text: str) -> str:
    """``text`` without keys, tokens, passwords, private keys, registered secrets and secret environment variables."""
    environment = (value for name, value in os.environ.items() if len(value) >= _SHORTEST and _NAMED.search(name))
    for value in sorted({*_known, *environment}, key=len, reverse=True):  # longest first: one may be another's prefix
        text = text.replace(value, _REDACTED)
    text = _PEM.sub(_REDACTED, text)
    text = _ADDRESS.sub(f"{_REDACTED}@", text)
    text = _HEADER.sub(rf"\g<kept>{_REDACTED}", text)
    text = _ASSIGNED.sub(rf"\g<kept>\g<sep>{_REDACTED}", text)
    return _SHAPED.sub(_REDACTED, text)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def said_in(error: BaseException, longest: int = _LONGEST_MESSAGE) -> str:
    """The error's message on one line, shortened and without secrets."""
    return redact(" ".join(str(error).split()))[:longest]


def for_log(text: str) -> str:
    """``text`` on one line, without control characters and secrets, so it cannot imitate a log entry."""
    return redact(_CONTROL.sub(" ", text))
