#!/usr/bin/env bash
# Sets up, builds and tests attenio: tests/run.sh [--long] [--preset NAME] [ctest options]
#   --long    the long tests instead of the default suite
#   --preset  a configure preset of CMakePresets.json (default: release)
# ATTENIO_SHARED names the folder with shared test data (default: ../shared beside the clone). Where it exists, a skipped
# test is a failure: nothing that could have been checked may go unchecked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
filter=(-LE '^long$')
while [[ $# -gt 0 ]]; do
  case $1 in
    --long) filter=(-L '^long$'); shift ;;
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    *) break ;;
  esac
done

export ATTENIO_SHARED=${ATTENIO_SHARED:-$(cd .. && pwd)/shared}
jobs=$(nproc)

if [[ $preset == clang ]]; then bash cmake/setup.sh clang; else bash cmake/setup.sh; fi
cmake --preset "$preset"
cmake --build --preset "$preset" -j "$jobs"

results=$PWD/build/$preset/junit.xml
ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error --output-junit "$results" \
  "${filter[@]}" "$@"

skipped=$(grep -oP '<testcase name="\K[^"]*(?="[^>]*status="(notrun|disabled)")' "$results" || true)
if [[ -n $skipped && -d $ATTENIO_SHARED ]]; then
  printf 'skipped although %s exists:\n%s\n' "$ATTENIO_SHARED" "$skipped" >&2
  exit 1
fi
