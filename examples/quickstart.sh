#!/usr/bin/env bash
# From a fresh clone to attention on real tensors: installs packages, builds the release, runs the attenio command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash cmake/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target attenio_cli

results=build/quickstart
mkdir -p "$results"
run() { printf '\n$ attenio %s\n' "$*"; build/release/bin/attenio "$@"; }

run info

# One layer of a trained model: 4 query heads on 2 KV heads, 1024 tokens. --verify compares with an f64 oracle.
model=tests/data/tinylm.safetensors
run attend --q $model:q --k $model:k --v $model:v --causal --out "$results/out.npy" --out-dtype f32 \
  --lse "$results/lse.npy" --explain --verify

# Cases of the ONNX Attention operator.
run conformance tests/data/conformance

# A generated problem of 8 heads, 4096 queries and keys, dimension 64: plan, error against the oracle, time, and the
# fraction of the multiply-add peak that is measured in the same round.
run bench --cases '^start-f32-d64-n4096$' --threads 1 --impl exact --explain
