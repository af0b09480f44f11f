#!/usr/bin/env bash
# Keeps what a study found, without its networks: the settings, log and numbers of every cell that ended, and the tables made
# of them. frn report makes the same tables and figures from the copy, and frn study goes on with the cells it lacks.
#   tools/keep-results.sh out/table6-desk docs/results/table6-desk
#   FRN=...   the program, instead of build/bin/frn
set -euo pipefail

[[ $# == 2 ]] || { echo "keep-results: expected the folder of a study and the folder to keep it in, but got $# words" >&2; exit 2; }
from=$1 to=$2
[[ -f $from/study.json ]] || { echo "keep-results: $from holds no study: there is no study.json" >&2; exit 1; }
[[ ! -e $to || -f $to/study.json ]] || { echo "keep-results: $to is not the copy of a study; name another folder" >&2; exit 1; }

mkdir -p "$to/cells"
cp "$from/study.json" "$from/study.toml" "$to"
kept=0
for metrics in "$from"/cells/*/metrics.json; do
  [[ -e $metrics ]] || continue
  grep -Eq '"status": "(finished|diverged)"' "$metrics" || continue
  cell=$(basename "$(dirname "$metrics")")
  mkdir -p "$to/cells/$cell"
  for file in cell.toml config.toml log.jsonl metrics.json; do cp "$from/cells/$cell/$file" "$to/cells/$cell"; done
  kept=$((kept + 1))
done
# The tables of what is kept: the study may hold cells that are still under way.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$to" "$work/copy"
"${FRN:-build/bin/frn}" report "$work/copy" >"$work/words" || { cat "$work/words" >&2; exit 1; }
cp "$work/copy/table.md" "$work/copy/table.csv" "$to"
echo "kept $kept cells of $from in $to"
