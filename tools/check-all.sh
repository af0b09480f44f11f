#!/usr/bin/env bash
# The stages of `make check-all`, one after the other, up to the first that fails. Two hours are long: a stage that passed is
# not repeated while no source changes, so that a run that was cut goes on where it stopped.
#   AGAIN=1          repeats them all
#   STAGES="test"    only these
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra stages <<<"${STAGES:-lint test studies asan tsan fuzz}"
folder=build-passed

# All files of the project but its documents, and the tools that set-up chose.
key() {
  find . \( -path ./.git -o -path './build*' -o -path ./out -o -path ./docs -o -name __pycache__ -o -name .pytest_cache -o -path ./.deps \) \
    -prune -o -type f ! -name '*.md' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | cat - .deps/environment.mk | sha256sum | cut -d' ' -f1
}

run() {
  case $1 in
    # FRN_ALL_CASES: also what takes minutes and differs from a smaller case in size alone. Not under the sanitizers, which
    # look at the code that runs, not at its results.
    test) FRN_ALL_CASES=1 make do-test ;;
    studies) make do-studies ;;
    lint) make do-lint ;;
    asan | tsan | fuzz) make do-test PRESET="$1" ;;
    *) echo "check-all: STAGES are of lint, test, studies, asan, tsan and fuzz, but there is '$1'" >&2; return 1 ;;
  esac
}

mkdir -p "$folder"
[[ -z ${AGAIN-} ]] || for stage in "${stages[@]}"; do rm -f "$folder/$stage"; done
before=$(key)
for stage in "${stages[@]}"; do
  if [[ -e $folder/$stage && $(head -n 1 "$folder/$stage") == "$before" ]]; then
    echo "check-all: $stage passed before, with these sources"
    continue
  fi
  echo "check-all: $stage"
  rm -f "$folder/$stage"
  SECONDS=0
  run "$stage" || { echo "check-all: $stage failed after $((SECONDS / 60)) minutes" >&2; exit 1; }
  if [[ $(key) != "$before" ]]; then
    echo "check-all: sources changed during $stage, so nobody knows which ones passed; start again" >&2
    exit 1
  fi
  printf '%s\n%s\n' "$before" "$SECONDS" >"$folder/$stage"
done

total=0
for stage in "${stages[@]}"; do
  seconds=$(tail -n 1 "$folder/$stage")
  total=$((total + seconds))
  printf 'check-all: %-8s passed in %3d minutes\n' "$stage" $(((seconds + 30) / 60))
done
echo "check-all: ${stages[*]} passed, in $(((total + 30) / 60)) minutes together"
