#!/bin/sh
# The evaluation worker: each file that appears in $WORK/inbox is evaluated, logged to MLflow and moved to done, or, when
# it could not be evaluated within $TIMEOUT seconds, to failed; what the command said lies beside it. A file that is
# still being copied needs a name that ends otherwise. A stopped worker finishes the file at hand.
set -eu

trap 'exit 0' TERM INT
work=${WORK:-/evaluations}
mkdir -p "$work/inbox" "$work/done" "$work/failed"

evaluate() {
    set -- "$1" --suite "${SUITE:-white_paper}" --judge "${JUDGE:-lexical}" --run-name "$(basename "$1")"
    if [ -n "${CACHE:-}" ]; then
        set -- "$@" --cache "$CACHE"
    fi
    timeout "${TIMEOUT:-3600}" ragmetrics evaluate "$@"
}

while true; do
    for file in "$work"/inbox/*; do
        touch "$work/alive"
        case $file in
            *.jsonl | *.json | *.csv | *.tsv | *.parquet) ;;
            *) continue ;;
        esac
        name=$(basename "$file")
        echo "evaluating $name"
        if evaluate "$file" >"$work/$name.log" 2>&1; then
            result="done"
        else
            result="failed"
        fi
        mv "$work/$name.log" "$file" "$work/$result/"
        echo "$result: $name"
    done
    if [ "${ONCE:-}" = true ]; then
        exit 0
    fi
    sleep "${INTERVAL:-5}" &
    wait $!
done
