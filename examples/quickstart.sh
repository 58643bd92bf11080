#!/usr/bin/env bash
# From a fresh clone to attention on real tensors: installs packages, builds the release, runs the attenio command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash cmake/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target attenio_cli
attenio=build/release/bin/attenio

"$attenio" info
