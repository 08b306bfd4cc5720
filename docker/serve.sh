#!/bin/sh
# The MLflow server on a PostgreSQL store. The password comes as PGPASSWORD, which libpq reads, and so never stands in a
# URI that could be shown. The server makes its tables in an empty database; after an update of MLflow, back up and run:
#   docker compose run --rm mlflow sh -c 'mlflow db upgrade "$MLFLOW_BACKEND_STORE_URI"'
set -eu

exec mlflow server \
    --backend-store-uri "$MLFLOW_BACKEND_STORE_URI" \
    --artifacts-destination "${ARTIFACTS:-/artifacts}" \
    --serve-artifacts \
    --host "${HOST:-0.0.0.0}" \
    --port "${PORT:-5000}" \
    --workers "${WORKERS:-2}" \
    --allowed-hosts "${ALLOWED_HOSTS:-mlflow:5000,localhost:5000,127.0.0.1:5000}"
