"""Server faults, and the number of requests sent if each occurs once."""

from __future__ import annotations

import json
from typing import Any

from tests.judges.misbehaving_server import Fault


def _says(content: str, **options: Any) -> Fault:
    return Fault(content=content, **options)


def _error(message: str, code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": code, "code": code}}).encode()


def _google(quota: str) -> bytes:
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.05s"},
    ]
    message = "You exceeded your current quota, please check your plan and billing details."
    return json.dumps([{"error": {"code": 429, "message": message, "details": details}}]).encode()


_PAGE = {"Content-Type": "text/html"}
_NO_CHOICES = b'{"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}'
_WRONG = '{"texts": [{"id": "t1", "claims": ["Forged."]}]}'
FAULTS: dict[str, tuple[Fault, int]] = {
    "429": (Fault(status=429), 2),
    "429 with Retry-After": (Fault(status=429, headers={"Retry-After": "0.05"}), 2),
    "429 with retry-after-ms": (Fault(status=429, headers={"retry-after-ms": "50"}), 2),
    "429 with Retry-After in words": (Fault(status=429, headers={"Retry-After": "soon"}), 2),
    "429 with Retry-After of an hour": (Fault(status=429, headers={"Retry-After": "3600"}), 1),
    "quota in the code": (Fault(status=429, body=_error("no", "insufficient_quota")), 1),
    "quota in the message": (Fault(status=429, body=_error("You exceeded your current quota, check billing")), 1),
    "a minute's quota of Google": (Fault(status=429, body=_google("GenerateRequestsPerMinutePerProject-FreeTier")), 2),
    "a day's quota of Google": (Fault(status=429, body=_google("GenerateRequestsPerDayPerProject-FreeTier")), 1),
    "payment required": (Fault(status=402), 1),
    "400": (Fault(status=400), 2),
    "400 for the temperature": (Fault(status=400, body=_error("Unsupported value: 'temperature'")), 2),
    "400 for the system role": (Fault(status=400, body=_error("System role not supported")), 2),
    "400 for the schema": (Fault(status=400, body=_error("response_format is not supported")), 2),
    "400 of a filter": (Fault(status=400, body=_error("filtered by the content management policy")), 1),
    "401": (Fault(status=401), 1),
    "403": (Fault(status=403), 1),
    "404": (Fault(status=404), 1),
    "404 for the schema": (Fault(status=404, body=_error("no endpoint supports response_format")), 2),
    "408": (Fault(status=408), 2),
    "409": (Fault(status=409), 2),
    "413": (Fault(status=413), 1),
    "422": (Fault(status=422), 2),
    "500": (Fault(status=500), 2),
    "501": (Fault(status=501), 2),
    "502 of a gateway": (Fault(status=502, headers=_PAGE, body=b"<html>bad gateway</html>"), 2),
    "503": (Fault(status=503), 2),
    "504": (Fault(status=504), 2),
    "529": (Fault(status=529), 2),
    "200 with a page": (Fault(headers=_PAGE, body=b"<html>log in</html>"), 2),
    "200 with nothing in it": (Fault(body=b" "), 2),
    "200 with null": (Fault(body=b"null"), 2),
    "200 with a list": (Fault(body=b"[]"), 2),
    "200 with an error": (Fault(body=_error("overloaded")), 2),
    "200 without choices": (Fault(body=_NO_CHOICES), 2),
    "200 cut in half": (Fault(breaks_off=True), 2),
    "a reset connection": (Fault(reset=True), 2),
    "a slow reply": (Fault(delay=2.0), 2),
    "a filter": (Fault(finish_reason="content_filter"), 1),
    "a refusal in its field": (Fault(refusal="I will not."), 1),
    "a refusal in words": (_says("I cannot help with this."), 1),
    "a refusal that quotes JSON": (_says(f"I cannot do what the text asks: {_WRONG}"), 1),
    "an empty reply": (_says(""), 2),
    "prose": (_says("One. Two."), 2),
    "prose after a quote": (_says(f"The text says {_WRONG} but that is a trap."), 2),
    "two answers": (_says(f'{_WRONG} or {{"texts": [{{"id": "t1", "claims": ["One."]}}]}}'), 2),
    "a draft in unclosed thoughts": (_says(f"<think>maybe {_WRONG}"), 2),
    "a quote, then a cut": (_says(f"The text says {_WRONG}", finish_reason="length"), 2),
    "a cut object": (_says(_WRONG[:30], finish_reason="length"), 2),
    "an object without its end": (_says(_WRONG[:-1]), 2),
    "another id": (_says('{"texts": [{"id": "t9", "claims": ["Forged."]}]}'), 2),
    "an id twice": (_says('{"texts": [{"id": "t1", "claims": ["A."]}, {"id": "t1", "claims": ["B."]}]}'), 2),
    "no list": (_says('{"texts": "One."}'), 2),
    "claims of other types": (_says('{"texts": [{"id": "t1", "claims": [1, 2]}]}'), 2),
    "another key": (_says('{"grades": []}'), 2),
    "braces without end": (_says("{" * 3000), 2),
    "the form given back": (_says('{"texts": [{"id": "t1", "claims": ["…"]}]}'), 2),
}
