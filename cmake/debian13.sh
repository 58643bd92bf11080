#!/usr/bin/env bash
# Builds and tests the working tree on Debian 13: cmake/debian13.sh FOLDER [gcc] [clang] [no-openmp] [no-onednn]
# FOLDER is a Debian 13 system (made with debootstrap if it does not exist); builds stay in FOLDER/build, so a second
# run is incremental. Without names, all four configurations. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=${1:?usage: cmake/debian13.sh FOLDER [configuration...]}
shift
configurations=("$@")
[[ $# -gt 0 ]] || configurations=(gcc clang no-openmp no-onednn)
shared=${ATTENIO_SHARED:-../shared}

if [[ ! -x $root/usr/bin/apt-get ]]; then
  command -v debootstrap >/dev/null || { apt-get -qq update; apt-get -qq install -y debootstrap; }
  debootstrap --variant=minbase trixie "$root"
fi

# A second run on the same folder waits: the first one unmounts what both would use.
exec {lock}>"$root/.attenio-lock"
flock "$lock"

mounts=()
mount_at() {  # mount_at SOURCE FOLDER-IN-ROOT [options]
  mkdir -p "$root/$2"
  mountpoint -q "$root/$2" && return
  mount --bind ${3:+-o "$3"} "$1" "$root/$2"
  mounts+=("$root/$2")
}
unmount_all() {
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount -l "${mounts[i]}"; done
}
trap unmount_all EXIT
for folder in proc dev dev/pts sys; do mount_at /$folder $folder; done
mount_at "$PWD" src/attenio ro
[[ -d $shared ]] && mount_at "$shared" src/shared ro

# With a clean environment: compilers and flags of the host mean nothing there. The configurations differ in few objects:
# ccache compiles the rest once (directories of objects enter no hash).
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    CCACHE_DIR=/build/ccache CCACHE_NOHASHDIR=1 CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
}

inside bash /src/attenio/cmake/setup.sh clang
inside bash -c 'command -v ccache >/dev/null || apt-get -qq install -y --no-install-recommends ccache >/dev/null'
for configuration in "${configurations[@]}"; do
  options=()
  case $configuration in
    gcc) ;;
    clang) options=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++) ;;
    no-openmp) options=(-DATTENIO_WITH_OPENMP=OFF) ;;
    no-onednn) options=(-DATTENIO_WITH_ONEDNN=OFF) ;;
    *) echo "unknown configuration $configuration" >&2; exit 2 ;;
  esac
  echo "== Debian 13, $configuration"
  inside ATTENIO_SHARED=/src/shared bash -euc '
    build=/build/$1; shift
    cmake -S /src/attenio -B "$build" -G Ninja "$@" >/dev/null
    cmake --build "$build" -j "$(nproc)" -- -k 0  # a newer compiler may refuse several files: show all
    ctest --test-dir "$build" -j "$(nproc)" -LE "^long$" --output-on-failure --no-tests=error
  ' bash "$configuration" "${options[@]}"
done
