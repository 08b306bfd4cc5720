"""Keys never reach a message: what looks like one, or is one of the environment's, is blotted out."""

from __future__ import annotations

import os
import re

__all__ = ["redact"]

_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHAPED = re.compile(
    r"(?:sk|pk|rk|gsk|xai|hf|ghp|gho|glpat|AIza|AKIA|dapi)[-_]?[A-Za-z0-9_\-]{12,}"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=\-]{6,}"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
    r"|(?i:(?<=api_key=)|(?<=api-key: )|(?<=apikey=)|(?<=token=)|(?<=password=))[^\s&,;'\"]{4,}"
)
_BLOT = "[redacted]"
_SHORTEST = 8


def redact(text: str) -> str:
    """``text`` without API keys, bearer tokens, passwords in addresses, and values of secret-named variables."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMED.search(name) and value in text:
            text = text.replace(value, _BLOT)
    return _SHAPED.sub(_BLOT, text)
