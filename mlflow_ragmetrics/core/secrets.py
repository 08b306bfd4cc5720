"""Keys never reach a message: what looks like one, or is one of the environment's, is blotted out."""

from __future__ import annotations

import os
import re

__all__ = ["keep_secret", "redact"]

_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHAPED = re.compile(
    r"(?<![A-Za-z])(?:sk|pk|rk|gsk|xai|hf|ghp|gho|glpat|AIza|AKIA|dapi)[-_]?[A-Za-z0-9_\-]{12,}"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=\-]{6,}"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
    r"|(?i:(?<=api_key=)|(?<=api-key: )|(?<=apikey=)|(?<=token=)|(?<=password=))[^\s&,;'\"]{4,}"
)
_BLOT = "[redacted]"
_SHORTEST = 8
_KEPT: set[str] = set()


def keep_secret(holder: object) -> None:
    """Blot out from now on what ``holder`` keeps secret: a key, or a model object with pydantic's secrets in it."""
    values = [holder] if isinstance(holder, str) else [_revealed(value) for value in _attributes(holder).values()]
    _KEPT.update(value for value in values if value is not None and len(value) >= _SHORTEST)


def _attributes(holder: object) -> dict[str, object]:
    return dict(getattr(holder, "__dict__", {}))


def _revealed(value: object) -> str | None:
    reveal = getattr(value, "get_secret_value", None)
    revealed = reveal() if callable(reveal) else None
    return revealed if isinstance(revealed, str) else None


def redact(text: str) -> str:
    """``text`` without API keys, bearer tokens, passwords in addresses, kept secrets, and secret-named variables."""
    for value in tuple(_KEPT):
        text = text.replace(value, _BLOT)
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMED.search(name) and value in text:
            text = text.replace(value, _BLOT)
    return _SHAPED.sub(_BLOT, text)
