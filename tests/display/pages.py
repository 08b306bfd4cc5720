"""The data in a page, read as its own script reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any


def carried(page: str) -> dict[str, Any]:
    """The page's header, and under ``rows`` each row's answer, passages and scores with their texts."""
    data = _opened(re.search(r'id="data">([^<]*)</script>', page)[1])
    blocks = [_opened(each) for each in re.findall(r'class="rows">([^<]*)</script>', page)]
    assert [first for first, _ in data["blocks"]] == [sum(map(len, blocks[:place])) for place in range(len(blocks))]
    texts: list[str] = []
    data["rows"] = [_resolved(row, texts) for block in blocks for row in block]
    return data


def _opened(packed: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(packed)).decode("utf-8", "replace"))


def _resolved(value: Any, texts: list[str]) -> Any:
    if isinstance(value, list):
        return [_resolved(each, texts) for each in value]
    if not isinstance(value, str) or not value:
        return value
    if value[0] == "~" and value[1] != "~":
        return texts[int(value[1:])]
    texts.append(value.removeprefix("~"))
    return texts[-1]
