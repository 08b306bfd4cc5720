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


def test_the_image_is_named_after_the_packages_version() -> None:
    assert SERVICES["worker"]["image"] == SERVICES["mlflow"]["image"] == f"ragmetrics:{rm.__version__}"
