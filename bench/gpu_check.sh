#!/usr/bin/env bash
# For an owner of an NVIDIA GPU: builds the CUDA kernels, compares them with the CPU's on the device, runs
# compute-sanitizer over a part of that, and prints the tables of `frn bench kernels` and `bench/peers.py`. The output is
# what we would like to be sent: we have no GPU and have run none of this on one ourselves.
#   bench/gpu_check.sh            all of it, about half an hour
#   bench/gpu_check.sh --quick    without compute-sanitizer, four maps
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

quick=${1-}
[[ -z $quick || $quick == --quick ]] || { echo "gpu_check: expected nothing or --quick but got '$1'" >&2; exit 2; }
command -v nvidia-smi >/dev/null || { echo "gpu_check: expected an NVIDIA GPU and its driver, but there is no nvidia-smi" >&2; exit 1; }
command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "gpu_check: expected nvcc 13 in PATH or /usr/local/cuda/bin; install the CUDA toolkit" >&2; exit 1; }

section() { printf '\n== %s\n' "$1"; }

section "machine"
git rev-parse HEAD
nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.mem,power.limit --format=csv
nvcc --version | tail -n 2

section "build"
tools/setup.sh test
make build PRESET=cuda
# What set-up found, PYTHON among it.
PYTHON=$(sed -n "s|^PYTHON := ||p" .deps/environment.mk)
export FRN_LIBRARY="$PWD/build-cuda/lib/libfrn_ops.so" PYTHONPATH="$PWD/python"

section "parity with the CPU, on the device"
"$PYTHON" -m pytest -q tests/parity/test_cuda.py

if [[ -z $quick ]]; then
  section "compute-sanitizer"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
      echo "-- $tool"
      PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$PYTHON" -m pytest -q tests/parity/test_cuda.py -k "small"
    done
  else
    echo "compute-sanitizer is not installed: left out"
  fi
fi

section "frn bench kernels"
build-cuda/bin/frn bench kernels --device cuda ${quick:+--quick}

section "bench/peers.py (timm, torch.compile)"
"$PYTHON" bench/peers.py --device cuda ${quick:+--quick}
