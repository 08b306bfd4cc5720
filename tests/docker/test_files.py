"""Properties of the container files: pinned, locked with hashes, not root, health checks, secrets as files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import mlflow_ragmetrics as rm

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")


def _locked(name: str) -> dict[str, str]:
    text = (DOCKER / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Dockerfile"],
        ["shellcheck", "with_secrets.sh", "serve.sh", "evaluate.sh"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_the_linters_find_nothing(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=DOCKER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_confined_and_checked(name: str) -> None:
    service = SERVICES[name]
    user = service["user"].split(":")[0]
    assert user.isdigit()
    assert int(user) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["healthcheck"]["test"]
    assert service["volumes"]
    assert re.fullmatch(r"\S+:\d+\.\d+(\.\d+)?(-\w+)?", service["image"]), "pinned to a full version"


def test_secrets_are_files_and_stand_nowhere_else() -> None:
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())
    variables = {name for service in SERVICES.values() for name in service["environment"]}
    assert not variables & set(COMPOSE["secrets"])
    assert "docker/secrets" in (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")


def test_only_the_server_is_published_and_only_on_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"mlflow": ["127.0.0.1:5000:5000"]}
    assert COMPOSE["networks"]["database"]["internal"] is True


def test_the_image_has_two_stages_and_ends_as_an_ordinary_user() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1] == SERVICES["worker"]["user"]
    assert DOCKERFILE.count("--require-hashes") == 2


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_each_locked_package_has_a_hash(name: str) -> None:
    entries = re.split(r"^(?=[a-z0-9])", (DOCKER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(entries) == len(_locked(name))
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_lock_holds_what_the_package_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(r'"([A-Za-z0-9_-]+)', project.split("dependencies = [")[1].split("]")[0])
    locked = _locked("requirements.lock")
    assert len(needed) > 5
    assert [name for name in needed if name.lower().replace("_", "-") not in locked] == []
    assert "psycopg2-binary" in locked


def test_the_image_is_named_after_the_packages_version() -> None:
    assert SERVICES["worker"]["image"] == SERVICES["mlflow"]["image"] == f"ragmetrics:{rm.__version__}"
