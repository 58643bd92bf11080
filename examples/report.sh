#!/usr/bin/env bash
# From a fresh clone to one page about this machine: examples/report.sh [FOLDER] (default build/report).
# Installs packages, builds the release, runs the studies; about ten minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash cmake/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target attenio_cli
build/release/bin/attenio report --out "${1:-build/report}"
