#!/usr/bin/env bash
# Installs what attenio's build needs on Debian or Ubuntu: cmake/setup.sh [clang]
# Does nothing when everything is there. Runs as root, or with sudo.
set -euo pipefail

packages=(g++ cmake ninja-build pkgconf libhwy-dev libdnnl-dev libhwloc-dev libcli11-dev
          nlohmann-json3-dev libfmt-dev libbenchmark-dev libgtest-dev libpng-dev gnuplot-nox)
for word in "$@"; do
  case $word in
    clang) packages+=(clang libomp-dev) ;;
    *) echo "usage: cmake/setup.sh [clang]" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query apt-get >/dev/null; then
  echo "setup: not a Debian system; the build needs the equivalents of: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing ${missing[*]}; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}
echo "setup: installing ${missing[*]}" >&2
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}" >/dev/null; }; then
  echo "setup: could not install ${missing[*]}" >&2
  echo "setup: the package servers could not be reached or lack them; install these packages and run again" >&2
  exit 1
fi
