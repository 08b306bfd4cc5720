"""Forms of secrets in messages, addresses and configurations, and ordinary sentences without secrets."""

from __future__ import annotations

import json
import time

import pytest

from mlflow_ragmetrics.core.safe_text import redact

_TAIL = "a1B2c3D4e5F6g7H8i9J0"
SHAPES = [
    # addresses
    ("http://:hunter2pass@proxy:3128", "hunter2pass"),
    ("https://9f8e7d6c5b4a3f2e1d@github.com/o/r.git", "9f8e7d6c5b4a3f2e1d"),
    ("https://oauthtoken@host/path", "oauthtoken"),
    ("postgresql://rag:p@ss@w0rd@db:5432/mlflow", "ss@w0rd"),
    ("postgresql://rag:pa/ss/w0rd@db/mlflow", "ss/w0rd"),
    ("mysql+pymysql://root:s3cr3t!#@127.0.0.1/x", "s3cr3t!"),
    ("redis://default:correcthorse@cache:6379/0", "correcthorse"),
    ("https://TOKENVALUE:x-oauth-basic@github.com/o/r", "TOKENVALUE"),
    ("mongodb+srv://app:Pa%40ss%2Fw@cluster0.example.net/db", "Pa%40ss"),
    # names and values
    ('{"api_key": "correct horse battery"}', "correct horse"),
    ("{'api_key': 'plainlowercase'}", "plainlowercase"),
    (r"{\"api_key\": \"escapedvalue\"}", "escapedvalue"),
    ("password: hunter2", "hunter2"),
    ("DB_PASSWORD=correcthorse", "correcthorse"),
    ('"password" : "pässwörd-lang"', "pässwörd"),
    ("Password=S3cret;Server=db", "S3cret"),
    ("client_secret=abcdefghij&grant_type=client_credentials", "abcdefghij"),
    ("clientSecret: 'qwertyuiop'", "qwertyuiop"),
    ("access_token=abcdefghijkl", "abcdefghijkl"),
    ('"refresh_token":"1//0abcdefgh"', "0abcdefgh"),
    ("OPENAI_API_KEY=abcdefgh12345678", "abcdefgh12345678"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
    ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
    ("DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFyYmF6cXV4==;", "Zm9vYmFyYmF6cXV4"),
    ("https://a.blob.core.windows.net/c?sv=2022&sig=Ab%2Bc123defg%3D&se=x", "Ab%2Bc123defg"),
    ("https://s3/x?X-Amz-Signature=0f1e2d3c4b5a69788796&a=b", "0f1e2d3c4b5a"),
    ("https://maps/api?key=zyxwvutsrq", "zyxwvutsrq"),
    ("пароль: коньяк123", "коньяк123"),
    # headers
    ("Authorization: Bearer abcdef123456", "abcdef123456"),
    ("authorization: bearer abcdefghijkl", "abcdefghijkl"),
    ("got header bearer abc123.def456", "abc123.def456"),
    ('{"Authorization": "Bearer correct-horse"}', "correct-horse"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    ("Authorization: token abcdefghijkl", "abcdefghijkl"),
    # tokens by their shape
    (f"refused pcsk_{_TAIL}_{_TAIL}", _TAIL),
    (f"refused pa-{_TAIL}{_TAIL}abc", _TAIL),
    (f"refused tgp_v1_{_TAIL}{_TAIL}", _TAIL),
    (f"refused csk-{_TAIL.lower()}{_TAIL.lower()}", _TAIL.lower()),
    (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{_TAIL}", "eyJzdWIiOiIxIn0"),
    (f"refused github_pat_11{_TAIL}_{_TAIL}", _TAIL),
    (f"refused ghs_{_TAIL}", _TAIL),
    (f"refused xoxb-123456789012-{_TAIL}", _TAIL),
    (f"refused nvapi-{_TAIL}", _TAIL),
    (f"refused sk-ant-api03-{_TAIL}", _TAIL),
    (f"refused hf_{_TAIL}", _TAIL),
    (f"refused AIzaSy{_TAIL}", _TAIL),
    ("refused ASIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY----- after", "MIIEow"),
    ("-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1r cut off", "b3BlbnNzaC1r"),
]
ORDINARY = [
    "The bearer of bad news is seldom thanked.",
    "Bearer bonds were abolished in 1982.",
    "A basic understanding of thermodynamics is enough.",
    "Basic JavaScript is taught in the first term.",
    "The password must have at least 8 characters.",
    "Password: must be at least eight characters long.",
    "password: required",
    "The secret: patience and a sharp knife.",
    "Secret: the key to good soup is patience.",
    "Unexpected token: closing bracket",
    "Invalid token: expired",
    "The token is expired.",
    "max_tokens=512, temperature=0.2",
    "prompt_tokens: 1234, completion_tokens: 56",
    '{"max_tokens": 1024, "total_tokens": 2048}',
    '{"eos_token": "<|im_end|>", "pad_token": "<pad>"}',
    "token_count: 15000",
    "pass an `api_key` or `workload_identity`",
    "give api_key=None for a local server",
    "api_key=${OPENAI_API_KEY}",
    "api_key=os.environ['OPENAI_API_KEY']",
    "skeletonization of binary images",
    "The skateboarding-championships were cancelled.",
    "A pkg-config file is missing.",
    "sk-learn-compatible estimators",
    "hf-transformers-documentation is online",
    "key-value-databases are fast",
    "See https://mlflow.org/docs/latest/index.html#tracking",
    "http://127.0.0.1:5000/#/experiments/1/runs/0123456789abcdef0123456789abcdef",
    "https://medium.com/@someone/a-title-1234",
    "http://localhost:8080/users/@me",
    "Write to someone@example.com or info@example.org.",
    "ssh://git@github.com/owner/repo.git",
    "git clone https://git@example.org/repo.git",
    "abfss://data-2024@account.dfs.core.windows.net/table",
    "sqlite:///mlflow.db",
    "openai:/gpt-4o-mini",
    "bedrock:/anthropic.claude-3-5-sonnet-20241022-v2:0",
    "Qwen/Qwen2.5-7B-Instruct-AWQ",
    "run 4f1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e is complete",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "The authorization was refused by the committee.",
    "Authorization: required for all members.",
    "pwd: /home/someone/data1",
    "The key of the piece is C sharp minor.",
    "The significance: p=0.03 in a two-sided test",
    "sigma=0.25 and signal=17",
    "A signature dish: roasted pumpkin with 12 spices",
    "Пароль должен быть длинным и надёжным.",
    "docker run -u 1000:1000 --user app:app image",
    "pa_table_schema_of_2024 is read with pyarrow",
    "The locale pa-Arab-PK-x-latin1 is known.",
    "ISBN 978-3-16-148410-0, phone +49 30 1234567",
]


@pytest.mark.parametrize(("text", "secret"), SHAPES)
def test_a_secret_is_redacted_wherever_it_stands(text: str, secret: str) -> None:
    for around in (text, f"401: {text}", f"{text} (attempt 2)", f"failed for '{text}'."):
        assert secret not in redact(around)
        assert "[redacted]" in redact(around)


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_sentence_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_json_stays_json() -> None:
    given = {"api_key": 'a"b\\c1234567', "max_tokens": 5, "nested": {"password": "p w", "url": "http://u:p@h/x"}}
    found = json.loads(redact(json.dumps(given)))
    assert found["max_tokens"] == 5
    assert found["nested"]["url"] == "http://[redacted]@h/x"


def test_redacting_twice_changes_nothing() -> None:
    for text, _ in SHAPES:
        assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "piece",
    [
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "password",
        "password=",
        "sk-",
        "eyJ",
        "a_",
        '"api_key": "',
        "bearer ",
        "--proxy-user a:",
        " ",
    ],
)
def test_long_texts_take_linear_time(piece: str) -> None:
    began = time.process_time()
    redact(piece * (40_000 // len(piece)))
    assert time.process_time() - began < 2
