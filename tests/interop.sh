#!/usr/bin/env bash
# Measures against stamp-suite, another implementation of STAMP, in both roles. The program is installed once into target/.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.0.0
root="${CARGO_TARGET_DIR:-target}/stamp-suite-$version"
if [ ! -x "$root/bin/stamp-suite" ]; then
  echo "interop: installing stamp-suite $version into $root" >&2
  # in a target folder of its own: its features must not unsettle ours
  CARGO_TARGET_DIR="$root/build" cargo install stamp-suite --version "$version" --locked --quiet --root "$root"
  rm -rf "$root/build"
fi
STAMP_SUITE="$(cd "$root/bin" && pwd)/stamp-suite"
export STAMP_SUITE
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --locked -p rhumb-probe --test interop "$@"
else
  cargo test --locked -p rhumb-probe --test interop "$@"
fi
