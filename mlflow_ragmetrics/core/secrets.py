"""Keys never reach a message: whatever looks like one, or is a secret of the environment, is redacted."""

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
_REDACTED = "[redacted]"
_SHORTEST = 8
_known: set[str] = set()


def keep_secret(secret: object) -> None:
    """Redact ``secret`` from now on: a key, or the pydantic secrets of a model object."""
    attributes: dict[str, object] = getattr(secret, "__dict__", {})
    values = [secret] if isinstance(secret, str) else map(_revealed, list(attributes.values()))
    _known.update(value for value in values if value is not None and len(value) >= _SHORTEST)


def _revealed(value: object) -> str | None:
    reveal = getattr(value, "get_secret_value", None)
    revealed = reveal() if callable(reveal) else None
    return revealed if isinstance(revealed, str) else None


def redact(text: str) -> str:
    """``text`` without API keys, bearer tokens, passwords in addresses, kept secrets, and secret-named variables."""
    for value in tuple(_known):
        text = text.replace(value, _REDACTED)
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMED.search(name) and value in text:
            text = text.replace(value, _REDACTED)
    return _SHAPED.sub(_REDACTED, text)
