#!/usr/bin/env bash
# Types commands as a person would and checks what they print and how they end. Usage: command_line.sh path/to/frn
set -uo pipefail
frn=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE PATTERN COMMAND...: the exit code (a number, or "bad" for any but 0) and a pattern in what it prints.
expect() {
  local code=$1 pattern=$2 output status
  shift 2
  output=$("$@" 2>&1)
  status=$?
  if { [[ $code != bad ]] && ((status != code)); } || { [[ $code == bad ]] && ((status == 0)); } ||
    ! grep -qE -- "$pattern" <<<"$output"; then
    printf 'FAILED: %s\n  exit %d, wanted %s and "%s"; it printed:\n%s\n' "$*" "$status" "$code" "$pattern" "$output"
    failures=$((failures + 1))
  fi
}

: >"$work/file"
expect 0 '^frn [0-9]' "$frn" --version
expect 0 'bench' "$frn" --help
expect 0 'kernels' "$frn" bench --help
expect bad "unknown command 'benhc'.*did you mean 'bench'" "$frn" benhc
expect bad "unknown command 'bench kernls'.*did you mean 'kernels'" "$frn" bench kernls
expect bad "unknown option '--thread'.*did you mean '--threads'" "$frn" bench kernels --thread 2
expect bad 'float64' "$frn" bench kernels --types float64
expect bad 'figure-epsilon' "$frn" study table9
expect bad '--list' "$frn" study
expect 0 'figure-epsilon' "$frn" study --list
expect 0 'table4 +A network with fully connected layers .Table 4, section 4.1' "$frn" study --list
expect bad "no study is named 'tabel2' .did you mean 'table2'" "$frn" study tabel2
expect bad "has no scale 'smok'.*did you mean 'smoke'" "$frn" study table2 --scale smok
expect bad 'needs --data imagefolder:DIR; --data random' "$frn" study table2 --scale paper --out "$work/paper"
expect bad 'cell bn-32: .*unknown key .stepz.' "$frn" study table2 --set stepz=3 --out "$work/paper"
expect bad 'matches no cell; the cells are bn-32' "$frn" study table2 --only nothing --out "$work/paper"
expect bad 'holds no study' "$frn" study table2 --report-only --out "$work/paper"
expect bad 'there is no such file' "$frn" study "$work/nothing.toml"
expect 0 'frn-1 .*about .* on this machine' bash -c '"$0" study table2 --only "frn-1" --dry-run | tr "\n" " "' "$frn"
[[ ! -e "$work/paper" ]] || { echo 'FAILED: a study that cannot begin left a folder'; failures=$((failures + 1)); }
expect 0 'affine_tlu' "$frn" info norms
expect 0 '"name": "frn"' "$frn" info norms --json
expect 0 'in use' "$frn" info system
expect 0 'reference +in use' env FRN_IMPLEMENTATION=reference "$frn" info system
expect bad "FRN_IMPLEMENTATION must be one of .*reference.*'refrence'.*did you mean 'reference'" \
  env FRN_IMPLEMENTATION=refrence "$frn" info system
expect 0 'resnetv2-50 +25.57 M +4.09 G +224' "$frn" info models
expect 0 'multiples of 32' "$frn" info models --norm gn+relu
expect 0 '"multiply_adds": 4089184256' "$frn" info model resnetv1-50 --norm bn+relu --json
expect 0 'stages.0.blocks.0.norm1.tau' "$frn" info model resnetv2-20 --parameters
expect bad "did you mean 'resnetv2-50'" "$frn" info model resnetv2_50
expect bad "norm must be one of .*'fnr'" "$frn" info models --norm fnr+tlu
expect bad 'nothing.safetensors: cannot open' "$frn" convert --from torchvision:resnet18 "$work/nothing.safetensors" "$work/x"
expect bad "did you mean 'torchvision:resnet50'" "$frn" convert --from torchvision:resnet5 "$work/file" "$work/x"
expect bad 'one of --from, --to and --model' "$frn" convert "$work/file" "$work/x"
expect bad "unknown option '--form'.*did you mean '--from'" "$frn" convert --form torchvision:resnet18 a b
[[ ! -e "$work/x" ]] || { echo 'FAILED: a failed conversion left a file'; failures=$((failures + 1)); }
expect 0 'frn\+tlu .*1.00' "$frn" bench train --model resnetv2-8 --size 8 --batch-per-device 2 --rounds 1
expect 0 '^2 .* ms .*%' "$frn" bench train --processes 1,2 --model resnetv2-8 --size 8 --batch-per-device 2 --rounds 1
expect 2 '^frn: \[bench train\] --processes: .* frn bench train --help' "$frn" bench train --processes 0 --rounds 1
expect 2 '^frn: \[train\] --out is required; frn train --help' "$frn" train
expect 2 "^frn: \[train\] --steps must be a whole number but is 'x'" "$frn" train --out "$work/x" --steps x
expect bad 'device must be cpu here but is cuda' "$frn" train --out "$work/x" --device cuda
expect 0 'wrote' "$frn" study figure-epsilon --out "$work/a b"
[[ -s "$work/a b/figure-epsilon.svg" ]] || { echo 'FAILED: no figure'; failures=$((failures + 1)); }
expect bad 'cannot make the folder' "$frn" study figure-epsilon --out "$work/file/x"
expect bad 'gnuplot' env PATH=/nonexistent "$frn" study figure-epsilon --out "$work/none"
[[ ! -e "$work/none/figure-epsilon.svg" ]] || { echo 'FAILED: half a figure'; failures=$((failures + 1)); }
expect 0 '2x8x6x5 .*frn\+tlu|2x32x6x5' "$frn" bench kernels --map 2 32 6 5 --seconds 0.001 --threads 1
expect 0 '"forward_copies"' "$frn" bench kernels --map 2 32 6 5 --seconds 0.001 --threads 1 --types float32 --json

mkdir -p "$work/run" "$work/images/train/cat" "$work/images/val/cat"
printf '{"event":"train","step":%d,"epoch":%d,"loss":2.0,"lr":0.1}\n' 1 1 2 2 >"$work/run/log.jsonl"
expect bad 'gnuplot' env PATH=/nonexistent "$frn" report "$work/run"
[[ ! -e "$work/run/report.html" ]] || { echo 'FAILED: a report without its figures'; failures=$((failures + 1)); }
expect 0 'wrote .*report.html' "$frn" report "$work/run"
[[ -s "$work/run/report.html" ]] || { echo 'FAILED: no report'; failures=$((failures + 1)); }
expect bad 'has no log.jsonl; frn train writes one' "$frn" report "$work"
expect bad 'must be the folder of a run' "$frn" report "$work/nothing"
expect 0 'cifar100 +from https' "$frn" data get --help
expect bad "one of cifar10, cifar100.*did you mean 'cifar10'" "$frn" data get cifar01 "$work/sets"
expect bad 'stopped at 0 of 170052171 bytes' "$frn" data get cifar10 "$work/sets" --url http://127.0.0.1:9
expect bad 'cannot make the folder' "$frn" data get cifar10 "$work/file/x"
expect 0 'train: .* 28x28 pixels, .* 0 broken' "$frn" data check fashion-mini
expect 0 '"broken": \[\]' "$frn" data check fashion-mini --json
for split in train val; do printf 'no image' >"$work/images/$split/cat/1.jpg"; done
expect bad '2 images of .* cannot be read' "$frn" data check "imagefolder:$work/images"

((failures == 0)) && echo "all commands behaved"
exit $((failures > 0))
