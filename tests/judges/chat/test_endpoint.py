"""A judge behind MLflow's AI gateway: ``gateway:/name`` of a real server with a provider on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from tests.judges.misbehaving_server import misbehaving_server
from tests.judges.rows import ROW
from tests.mlflow_server import Server

pytestmark = pytest.mark.slow

_ON_LOOPBACK = {
    "MLFLOW_CRYPTO_KEK_PASSPHRASE": "only the passphrase of a test",
    "MLFLOW_GATEWAY_API_BASE_ALLOWED_SCHEMES": "http",
    "MLFLOW_GATEWAY_API_BASE_ALLOW_PRIVATE_IPS": "true",
}


def make_endpoint(name: str, address: str) -> None:
    entities: Any = pytest.importorskip("mlflow.entities")
    if not hasattr(entities, "GatewayModelLinkageType"):
        pytest.skip("this MLflow has no AI gateway in its server")
    from mlflow.tracking._tracking_service.utils import _get_store

    store: Any = _get_store()
    secret = store.create_gateway_secret(
        "key", {"api_key": "sk-of-a-test"}, provider="openai", auth_config={"api_base": address}
    )
    model = store.create_gateway_model_definition("model", secret.secret_id, "openai", "local")
    config = entities.GatewayEndpointModelConfig(model.model_definition_id, entities.GatewayModelLinkageType.PRIMARY)
    store.create_gateway_endpoint(name, [config], usage_tracking=False)


def test_a_judge_behind_the_gateway(mlflow_template: Path, tmp_path: Path) -> None:
    server = Server(tmp_path, **_ON_LOOPBACK)
    server.start()
    try:
        mlflow.set_tracking_uri(server.url)
        with misbehaving_server() as provider:
            make_endpoint("judge-a", provider.url)
            report = rm.Suite(["faithfulness", "correctness"], judge="gateway:/judge-a").evaluate([ROW])
        assert {score.status for score in report.rows[0].scores.values()} == {"ok"}
        assert [request["model"] for request in provider.requests] == ["local"] * 2
        assert report.usage["calls"] == 2
    finally:
        server.kill()
