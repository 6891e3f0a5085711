#!/usr/bin/env bash
# The console against a running federation, in headless Chromium: CHROMIUM names it, /usr/bin/chromium otherwise.
# Without a browser there is nothing to see, and that is said; where CI is true it is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
export CHROMIUM
if [ ! -x "$CHROMIUM" ]; then
  echo "console: $CHROMIUM is missing: install chromium, or name another with CHROMIUM" >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
  exit 0
fi
rhumb=${RHUMB_BIN:-${CARGO_TARGET_DIR:-target}/debug/rhumb}
for needed in "$rhumb" web/dist/index.html web/node_modules/.bin/playwright; do
  [ -e "$needed" ] || { echo "console: $needed is missing: build it first: ./dev build" >&2; exit 1; }
done

folder=$(mktemp -d)
demo=
stop() {
  local status=$?
  trap - EXIT
  if [ -n "$demo" ]; then
    kill -INT "$demo" 2>/dev/null || true
    wait "$demo" || true
  fi
  if [ "$status" -ne 0 ]; then
    echo "--- demo" && tail -n 30 "$folder/demo.log"
    echo "--- server" && tail -n 30 "$folder/data/logs/server.log" 2>/dev/null || true
  fi
  rm -rf "$folder"
  exit "$status"
}
trap stop EXIT

port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
# a background job of a script does not hear the interrupt key unless it has a group of its own
set -m
"$rhumb" demo --listen "127.0.0.1:$port" --data "$folder/data" --fresh >"$folder/demo.log" 2>&1 </dev/null &
demo=$!
set +m
token=
for _ in $(seq 1 300); do
  token=$(sed -n 's/^RHUMB_TOKEN=//p' "$folder/demo.log" | head -n 1)
  if [ -n "$token" ] || ! kill -0 "$demo" 2>/dev/null; then break; fi
  sleep 0.2
done
[ -n "$token" ] || { echo "console: the demo is not ready" >&2; exit 1; }
export RHUMB_URL="http://127.0.0.1:$port" RHUMB_TOKEN="$token"

# something to look at: one order that runs, one that cannot
"$rhumb" order create -f examples/service-near-users.yaml
"$rhumb" order create -f examples/refused.yaml
(cd web && npm run --silent e2e -- smoke.spec.ts)
