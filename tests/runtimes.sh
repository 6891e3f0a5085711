#!/usr/bin/env bash
# The contract of runtimes against real schedulers, which the tests start and end themselves: Slurm by the packages slurm-wlm,
# slurmrestd, slurm-wlm-jwt-plugin and munge (and root), Ray in a Python environment of its own, made once below target/.
# What is absent is skipped and said so; with RHUMB_REQUIRE_PEERS it is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.60.0
root="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)/ray-$version"
if [ -z "${RHUMB_RAY:-}" ]; then
  if [ ! -x "$root/bin/ray" ] && command -v python3 >/dev/null; then
    echo "runtimes: installing ray $version into $root" >&2
    rm -rf "$root"
    python3 -m venv "$root" && "$root/bin/pip" install --quiet "ray[default]==$version" || rm -rf "$root"
  fi
  [ -x "$root/bin/ray" ] && export RHUMB_RAY="$root/bin"
fi
export RHUMB_PEERS=1
# one after the other: each starts a cluster
cargo test --locked -p rhumb-runtimes --test peers -- --test-threads=1 --nocapture "$@"
cargo test --locked -p rhumb-agent --test agent schedulers -- --test-threads=1 --nocapture "$@"
