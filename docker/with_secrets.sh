#!/bin/sh
# Runs its arguments with each file in $SECRETS (default /run/secrets) as the environment variable of the file's name,
# so that no secret stands in the compose file, in an image or in an argument. An empty file sets nothing.
set -eu

for file in "${SECRETS:-/run/secrets}"/*; do
    name=$(basename "$file")
    case $name in
        *[!A-Z0-9_]* | [0-9]*) continue ;;
    esac
    if [ -s "$file" ]; then
        value=$(cat "$file")
        export "$name=$value"
    fi
done

exec "$@"
