#!/usr/bin/env bash
# Makes this machine ready and tells the Makefile what it found, in .deps/environment.mk:
#   tools/setup.sh run|test|check     to build and use frn | also to test it | also linters and sanitizers
# System packages come from apt; all else stays in .deps. A call that finds nothing to do ends at once.
#   FRN_PYTHON=...      the Python to use (3.11 or later); its torch is used when it has the pinned version
#   FRN_TORCH_DIR=...   a LibTorch folder, or the folder of an installed torch, for the run tier
#   CXX=...             the compiler, instead of g++ 12 or later
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

tier=${1-}
case $tier in
  run) tiers="run" ;;
  test) tiers="run test" ;;
  check) tiers="run test check" ;;
  *) fail "usage: tools/setup.sh run|test|check" ;;
esac

venv=.deps/venv
environment=.deps/environment.mk
unfinished=.deps/unfinished # stands while the virtual environment is being changed
setting() { [[ ! -e $environment ]] || sed -n "s/^$1 := //p" "$environment"; }

mkdir -p .deps
if command -v flock >/dev/null; then # two calls at once would write the same environment
  exec 9>.deps/lock
  flock 9
fi

# The folder belongs to the key: a moved or copied checkout has to be looked at again.
key=$({ cat tools/setup.sh tools/*.txt; echo "$PWD|${FRN_PYTHON-}|${FRN_TORCH_DIR-}|${CXX-}"; } | cksum)
ready=
[[ $(setting KEY) != "$key" ]] || ready=$(setting READY)
if [[ " $ready " == *" $tier "* && ! -e $unfinished && -e $(setting TORCH_DIR)/lib/libtorch_cpu.so ]]; then
  exit 0
fi

# --- System packages ---

install_packages() {
  local root=() apt=(apt-get install -y --no-install-recommends "$@")
  command -v apt-get >/dev/null || fail "please install what Debian calls: $* (this is not a Debian or Ubuntu)"
  if ((EUID != 0)); then
    if sudo -n true 2>/dev/null || { [[ -t 0 ]] && command -v sudo >/dev/null; }; then
      root=(sudo "--preserve-env=http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY")
    else
      fail "system packages are missing; run this as root, then try again: ${apt[*]}"
    fi
  fi
  say "installing system packages, about a minute (log: .deps/apt.log): $*"
  ${root[@]+"${root[@]}"} apt-get update -q >.deps/apt.log 2>&1 ||
    say "apt-get update failed; trying with the lists at hand"
  if ! ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive "${apt[@]}" -q >>.deps/apt.log 2>&1; then
    tail -n 5 .deps/apt.log >&2
    fail "apt-get failed (see above and .deps/apt.log); once that is solved, try again: ${apt[*]}"
  fi
}

preprocess() { ${CXX:-g++} -E -x c++ - &>/dev/null; } # unquoted: CXX may have arguments

present() {
  if [[ $1 == "<"* ]]; then
    preprocess <<<"#include ${1%% *}"
  else
    $1 &>/dev/null </dev/null # unquoted: a command with its arguments
  fi
}

missing=()
while read -r needed_by package probe; do
  [[ " $tiers " == *" $needed_by "* ]] || continue
  present "$probe" || missing+=("$package")
done < <(grep -v '^#' tools/system-packages.txt)
((${#missing[@]} == 0)) || install_packages "${missing[@]}"

# What the distribution gives may be too old: better said now than after minutes of compiling.
while read -r needed_by package probe; do
  [[ $probe == "<"*" "* && " $tiers " == *" $needed_by "* ]] || continue
  header=${probe%% *} condition=${probe#* }
  printf '#include %s\n#if !(%s)\n#error too old\n#endif\n' "$header" "$condition" | preprocess ||
    fail "$package is too old here: $header must have ${condition}; Debian 12 and Ubuntu 24.04 have it, or install a newer" \
      "one where the compiler finds it (CPLUS_INCLUDE_PATH and LIBRARY_PATH)"
done < <(grep -v '^#' tools/system-packages.txt)

compiler=${CXX:-g++}
if [[ -z ${CXX-} ]] && (($(g++ -dumpversion | cut -d. -f1) < 12)); then
  say "g++ here is older than 12, so g++-12 is used"
  compiler=g++-12
  command -v g++-12 >/dev/null || install_packages g++-12
fi

# --- Python and LibTorch ---

torch_version=$(sed -n 's/^torch==//p' tools/requirements-run.txt)

# Prints the torch folder of a Python that has the pinned version, without the seconds that an import takes.
torch_dir_of() {
  "$1" - "$torch_version" 2>/dev/null <<'PYTHON'
import importlib.metadata, importlib.util, os, sys
assert importlib.metadata.version("torch").split("+")[0] == sys.argv[1]
folder = importlib.util.find_spec("torch").submodule_search_locations[0]
assert os.path.exists(folder + "/lib/libtorch_cpu.so") and os.path.exists(folder + "/include/ATen/ATen.h")
print(folder)
PYTHON
}

find_python() {
  local candidate
  for candidate in ${FRN_PYTHON:+"$FRN_PYTHON"} python3 python3.11 python3.12 python3.13 python3.14 python3.15; do
    # sys.executable: a shim (pyenv) is not the Python that it starts.
    "$candidate" -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 11); print(sys.executable)' \
      2>/dev/null && return
    [[ -z ${FRN_PYTHON-} ]] || fail "FRN_PYTHON=$FRN_PYTHON is not a Python 3.11 or later with the venv module"
  done
  fail "torch $torch_version needs Python 3.11 or later with the venv module, and python3 is not one: install one (on" \
    "Ubuntu 22.04: apt-get install -y python3.11-venv) or set FRN_PYTHON"
}

pip_install() {
  local code=0 quiet=()
  [[ -t 1 ]] || quiet=(--quiet --progress-bar off) # bars belong on a screen, not in a log
  rm -rf .deps/pip.log .deps/tmp
  mkdir .deps/tmp # the wheels unpack to gigabytes, and /tmp may be small
  TMPDIR=$PWD/.deps/tmp "$venv/bin/python" -m pip install ${quiet[@]+"${quiet[@]}"} --no-input \
    --disable-pip-version-check --log .deps/pip.log "$@" || code=$?
  rm -rf .deps/tmp
  ((code != 0)) || return 0
  if grep -q 'No matching distribution' .deps/pip.log && ! grep -q 'Retrying' .deps/pip.log; then
    say "no wheel for this machine ($(uname -sm), $("$venv/bin/python" --version)); x86-64 Linux with Python 3.11 to" \
      "3.15 has them: set FRN_PYTHON, or FRN_TORCH_DIR to a LibTorch $torch_version folder to build without the tests"
  else
    say "pip ended with code $code (network, disk or interrupt: see above and .deps/pip.log); try again, what was" \
      "downloaded whole is not fetched twice"
  fi
  exit "$code"
}

if [[ -n ${FRN_TORCH_DIR-} ]]; then
  [[ $tier == run ]] || fail "the tests need PyTorch itself, so unset FRN_TORCH_DIR for them (FRN_PYTHON chooses a torch)"
  [[ -e $FRN_TORCH_DIR/lib/libtorch_cpu.so && -d $FRN_TORCH_DIR/include ]] ||
    fail "FRN_TORCH_DIR=$FRN_TORCH_DIR has no include/ and lib/libtorch_cpu.so"
  torch_dir=$(cd "$FRN_TORCH_DIR" && pwd)
  python=${FRN_PYTHON:-python3}
else
  python=$(find_python)
  # pip takes a half-written package for an installed one, so an environment left unfinished is made anew; so is one
  # whose Python is gone, or is not the one asked for.
  if [[ -e $unfinished ]] || ! "$venv/bin/python" -m pip --version &>/dev/null ||
    [[ -n ${FRN_PYTHON-} && ! $python -ef $venv/bin/python ]]; then
    rm -rf "$venv"
  fi
  torch_dir=$(torch_dir_of "$venv/bin/python" || torch_dir_of "$python" || true)

  if [[ $tier != run || -z $torch_dir ]]; then
    touch "$unfinished"
    if [[ ! -e $venv ]]; then
      "$python" -m venv ${torch_dir:+--system-site-packages} "$venv" || fail "$python could not make $venv"
    fi
    if [[ $tier == run ]]; then
      say "fetching LibTorch $torch_version into $venv: 0.6 GB, which takes as long as your network needs for it"
      pip_install --no-deps -r tools/requirements-run.txt
    elif [[ -z $torch_dir || $torch_dir == "$PWD/$venv"/* ]]; then
      say "fetching PyTorch $torch_version and the tests' other packages into $venv: up to 3 GB, 6 GB when unpacked"
      pip_install -r tools/requirements-test.txt
    else
      say "using the torch in $torch_dir; fetching the tests' other packages into $venv"
      # When that Python is a virtual environment itself, ours does not inherit from it.
      torch_dir_of "$venv/bin/python" >/dev/null ||
        dirname "$torch_dir" >"$(echo "$venv"/lib/python*/site-packages)/frn-torch.pth"
      grep -Ev '^(torch=|triton=|cuda-|nvidia-)' tools/requirements-test.txt >.deps/requirements.txt
      pip_install -r .deps/requirements.txt
    fi
    torch_dir=$(torch_dir_of "$venv/bin/python") || fail "$venv has no torch $torch_version although pip succeeded"
    rm -f "$unfinished"
  fi
  [[ ! -e $venv ]] || python=$venv/bin/python
fi

# --- The answer ---

# A run-tier build leaves the tests out, since it has no GoogleTest; once there, they stay in.
tests=OFF
[[ $tier == run && $(setting BUILD_TESTS) != ON ]] || tests=ON

# In place in one step, and only when it changes: build folders are configured anew when this file is newer.
cat >$environment.new <<END
# Written by tools/setup.sh. Paths inside the project are relative, so that make copes with any folder name.
TORCH_DIR := ${torch_dir#"$PWD"/}
PYTHON := $python
COMPILER := $compiler
BUILD_TESTS := $tests
READY := $(tr ' ' '\n' <<<"$ready $tiers" | sort -u | xargs)
KEY := $key
END
if cmp -s $environment.new $environment; then rm $environment.new; else mv $environment.new $environment; fi
