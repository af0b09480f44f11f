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
expect 0 '^frn [0-9]+\.[0-9]+\.[0-9]+ \((commit [0-9a-f]{7,}( with changes)?|unknown commit), LibTorch [0-9.]+' "$frn" --version
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
expect 2 '--size must be from 1 to 65536 but is 100000000' "$frn" info models --size 100000000
expect 2 '--classes must be from 1 to 1000000 but is -5' "$frn" info models --classes -5
expect 0 'multiples of 32' "$frn" info models --norm gn+relu
expect 0 '"multiply_adds": 4089184256' "$frn" info model resnetv1-50 --norm bn+relu --json
expect 0 'stages.0.blocks.0.norm1.tau' "$frn" info model resnetv2-20 --parameters
expect bad "did you mean 'resnetv2-50'" "$frn" info model resnetv2_50
expect 0 'least +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]* +[1-9][0-9]* px' "$frn" info model resnetv2-8 --memory --limit 1GB
# A network that takes no image of half the size.
expect 0 'least +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]* +[1-9][0-9]* px' "$frn" info model vgg-a-small --memory --limit 1GB
expect 0 'least +[0-9]+ +[0-9]+ +[0-9]+ +none fits +none fits' "$frn" info model resnetv2-8 --memory --limit 1MB
expect 0 '"kept_megabytes"' "$frn" info model retinanet-r8 --memory --image-size 128 --classes 3 --json
expect bad "such as 8GB, but is 'much'" "$frn" info model resnetv2-8 --memory --limit much
expect bad 'limit has no effect without --memory' "$frn" info model resnetv2-8 --limit 8GB
expect bad "norm must be one of .*'fnr'" "$frn" info models --norm fnr+tlu
expect bad 'nothing.safetensors: cannot open' "$frn" convert --from torchvision:resnet18 "$work/nothing.safetensors" "$work/x"
expect bad "did you mean 'torchvision:resnet50'" "$frn" convert --from torchvision:resnet5 "$work/file" "$work/x"
expect 2 'one of --from, --to and --model' "$frn" convert "$work/file" "$work/x"
expect 2 '^frn: \[convert\] --(from|to) and --(from|to) cannot be given together' \
  "$frn" convert --from torchvision:resnet18 --to timm:resnet18 a b
expect 2 '^frn: \[convert\] --model has no effect without --norm' "$frn" convert --model resnetv1-18 a b
expect bad "unknown option '--form'.*did you mean '--from'" "$frn" convert --form torchvision:resnet18 a b
# Weights of one number: the header's length, the header, the number.
printf '\075\0\0\0\0\0\0\0%s\0\0\0\0' '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}' >"$work/one.safetensors"
expect 1 '^frn: \[convert\] norms start afresh in classifiers, but retinanet-r8 finds boxes' \
  "$frn" convert --model retinanet-r8 --norm gn+relu "$work/one.safetensors" "$work/x"
[[ ! -e "$work/x" ]] || { echo 'FAILED: a failed conversion left a file'; failures=$((failures + 1)); }
expect 0 'frn\+tlu .*1.00' "$frn" bench train --model resnetv2-8 --size 8 --batch-per-device 2 --rounds 1
expect 0 '^2 .* ms .*%' "$frn" bench train --processes 1,2 --model resnetv2-8 --size 8 --batch-per-device 2 --rounds 1
expect 2 '^frn: \[bench train\] --processes must be from 1 to 1024 but is 0; frn bench train --help' \
  "$frn" bench train --processes 0 --rounds 1
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

# Sets with boxes.
expect 0 'or coco:TRAIN.json@IMAGES,VAL.json@IMAGES' "$frn" info data
expect 0 '"kind": "voc"' "$frn" info data --json
expect 0 'train: 20 images of 3 classes, [0-9]+ boxes, [0-9]+ images without boxes, 0 entries left out, 64x64 pixels' \
  "$frn" data check shapes:64x3x20
mkdir -p "$work/coco/images"
base64 -d >"$work/coco/images/a.png" <<<'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAGCAIAAABxZ0isAAAAFElEQVR4nGPkTD7OgA0wYRWlkwQAtNgBP1l5rVQAAAAASUVORK5CYII='
write_coco() { # BOX: of the only object of both splits
  for split in train val; do
    printf '{"images": [{"id": 5, "file_name": "a.png", "width": 8, "height": 6}], "categories": [{"id": 2, "name": "cell"}], "annotations": [{"id": 9, "image_id": 5, "category_id": 2, "bbox": [%s]}]}' \
      "$1" >"$work/coco/instances_$split.json"
  done
}
write_coco '1, 2, 3, 4'
expect 0 'validation: 1 images of 1 classes, 1 boxes, 0 images without boxes, 0 entries left out, 6x8 pixels' \
  "$frn" data check "coco:$work/coco"
write_coco '1, 2, 0, 4'
expect bad 'left out: .*instances_train.json, image 5 .a.png., annotation 9: its box must have a width' "$frn" data check "coco:$work/coco"
expect bad '2 of the annotations of coco:.* cannot be used, and frn train leaves them out' "$frn" data check "coco:$work/coco"
expect bad '"images_without_boxes": 1' "$frn" data check "coco:$work/coco" --json
expect bad 'nothing: it must be a folder but does not exist; or name the files, as coco:TRAIN.json@IMAGES' \
  "$frn" data check "coco:$work/nothing"
expect bad 'after coco: stands a folder or TRAIN.json@IMAGES,VAL.json@IMAGES' "$frn" data check "coco:a@b"

# COCO's evaluation.
truth='"image_id": 7, "category_id": 1, "bbox": [10, 10, 50, 50]'
printf '{"images": [{"id": 7}], "categories": [{"id": 1, "name": "cat"}], "annotations": [{"id": 0, %s}]}' "$truth" >"$work/gt.json"
printf '[{%s, "score": 0.9}]' "$truth" >"$work/found.json"
expect 0 '^AP +1\.000  average precision' "$frn" metrics coco "$work/gt.json" "$work/found.json"
expect 0 '^APs +-  average' "$frn" metrics coco "$work/gt.json" "$work/found.json"
expect 0 '^cat +1 +1\.000' "$frn" metrics coco "$work/gt.json" "$work/found.json" --per-class
sed 's/"cat"/"cat\\u001b[2J"/' "$work/gt.json" >"$work/hostile.json"
expect 0 '^cat \[2J +1 +1\.000' "$frn" metrics coco "$work/hostile.json" "$work/found.json" --per-class
expect 0 '"AR300": 1' "$frn" metrics coco --max-detections 1,10,300 "$work/gt.json" "$work/found.json" --json
expect 2 '^frn: \[metrics coco\] --max-detections takes 3 values' "$frn" metrics coco a b --max-detections 1,10
expect bad 'found.json: must be COCO annotations, .* but is a list' "$frn" metrics coco "$work/found.json" "$work/found.json"
expect bad 'gt.json: must be COCO detections, .* but is a table' "$frn" metrics coco "$work/gt.json" "$work/gt.json"
expect bad 'nothing.json: cannot open' "$frn" metrics coco "$work/nothing.json" "$work/found.json"
sed -i 's/"image_id": 7/"image_id": 8/' "$work/found.json"
expect bad 'an image that the truth lists but one is of image 8' "$frn" metrics coco "$work/gt.json" "$work/found.json"
sed -i 's/"image_id": 7/"image_id": 8/' "$work/gt.json"
echo '[]' >"$work/none.json"
expect 0 'gt.json: annotation 0 is of image 8, which the file does not list' "$frn" metrics coco "$work/gt.json" "$work/none.json"
expect 0 'evaluate, 1 thread .* s$' "$frn" bench coco-ap --images 20 --rounds 1
expect 0 'finding boxes .* images/s, [1-9][0-9]* boxes in 2 images$' "$frn" bench detector --model retinanet-r8 --size 128 --classes 3 --rounds 1
expect 1 '^frn: \[bench detector\] resnetv2-8 is no detector' "$frn" bench detector --model resnetv2-8
expect 1 '^frn: \[bench train\] retinanet-r8 finds boxes; `frn bench detector' "$frn" bench train --model retinanet-r8 --size 128
expect 1 '^frn: \[weights_standardised\] it must be one of off, plain, scaled, gain' "$frn" train --weights-standardised on --out "$work/never"
expect 1 'only an eps from 1e-30 to 1 may follow the form.*plain.eps=2.' "$frn" train --weights-standardised 'plain(eps=2)' --out "$work/never"
expect 0 '^standardised    gain$' "$frn" info model resnetv2-8 --weights-standardised gain
expect 0 'scores above 1e-08 .* ms$' "$frn" bench nms --size 128 --classes 3 --rounds 1

# Help: groups, choices, defaults in words, and no line above 80 columns where there is no terminal.
for group in Run Data Model 'Batch, devices and precision' 'Schedule and optimiser' 'Output and checkpoints' Examples; do
  expect 0 "^$group:\$" "$frn" train --help
done
one_line() { "$@" | tr -s ' \n' ' '; }
expect 0 "at which the network sees the images \(default: the data's own size\)" one_line "$frn" train --help
expect 0 'falls after warm-up \(cosine, step, constant; default: cosine\)' one_line "$frn" train --help
expect 0 'only --processes, --data, .*--checkpoints-kept, --max-steps may change' one_line "$frn" train --help
expect 0 '--run DIR .*\(required\)' one_line "$frn" eval --help
expect 0 '^Usage: frn predict \[options\] --run DIR IMAGE\.\.\.$' "$frn" predict --help
for command in train study 'bench kernels'; do
  expect 0 "^Usage: frn $command " "$frn" --help-all
done
long=$("$frn" --help-all | awk 'length > 80')
[[ -z $long ]] || { printf 'FAILED: lines of help above 80 columns:\n%s\n' "$long"; failures=$((failures + 1)); }
"$frn" train --help | grep -q -- --as-rank && { echo 'FAILED: a hidden option in the help'; failures=$((failures + 1)); }

# A disk that is full where the output goes.
if [[ -w /dev/full ]]; then
  expect 1 '^frn: \[output\] cannot write to standard output: No space left' bash -c '"$0" info models >/dev/full' "$frn"
  expect 1 '^frn: \[output\] cannot write to standard output: No space left' bash -c '"$0" info models --json >/dev/full' "$frn"
  expect 1 '^frn: \[output\] cannot write' bash -c '"$0" --help >/dev/full' "$frn"
fi

# Names from other trainers, beginnings of names, and other ways to write one.
while read -r theirs ours; do
  expect 2 "^frn: unknown option '$theirs' .did you mean '$ours'\?.*; frn train --help" "$frn" train --out "$work/x" "$theirs" 1
done <<'END'
--lr --lr-base
--learning-rate --lr-base
--batch-size --batch-per-device
--wd --weight-decay
--gpus --devices
--num-workers --workers
--output --out
--output-dir --out
--arch --model
--warmup --warmup-steps
--batch_per_device --batch-per-device
-lr --lr-base
END
expect 2 'of one device, not of all' "$frn" train --batch-size 8
expect 2 "did you mean '--checkpoint-every' or '--checkpoints-kept'" "$frn" train --checkpoint 8

# Options that would do nothing, or contradict each other, end the command before hours of training.
expect 2 '^frn: \[train\] --lr-drops has no effect with --schedule cosine; .* give --schedule step$' \
  "$frn" train --out "$work/x" --lr-drops 0.5,0.8
expect 2 '--lr-drop-factor has no effect with --schedule constant' \
  "$frn" train --out "$work/x" --schedule constant --lr-drop-factor 0.2
expect 2 '--epochs has no effect with --steps 10' "$frn" train --out "$work/x" --epochs 3 --steps 10
expect 2 '--decay-norms has no effect with --weight-decay 0' "$frn" train --out "$work/x" --weight-decay 0 --decay-norms
expect bad 'images_at_once must hold at least' "$frn" train --out "$work/x" --images-at-once 4 --batch-per-device 8
expect 2 "^frn: \[train\] --schedule must be one of cosine, step, constant but is 'cosin' .did you mean 'cosine'" \
  "$frn" train --out "$work/x" --schedule cosin
expect 2 '--workers must be from 0 to 1024 but is 1000000' "$frn" train --out "$work/x" --workers 1000000
expect 2 '--workers must be from 0 to 1024 but is 1000000' "$frn" eval --run "$work/x" --workers 1000000
expect 2 '--threads must be from 1 to 1024 but is 100000' "$frn" data check fashion-mini --threads 100000
expect 2 '^frn: \[train\] --out must not be empty; frn train --help' "$frn" train --out ''
expect 2 '^frn: \[predict\] IMAGE must not be empty' "$frn" predict --run x ''
expect 2 '--dry-run and --report-only cannot be given together' "$frn" study table2 --dry-run --report-only
printf 'schedule = "step"\nsteps = 1\nepochs = 2.0\nmodel = "resnetv2-8"\nbatch_per_device = 2\n' >"$work/step.toml"
expect 0 'finished' "$frn" train --out "$work/step" --config "$work/step.toml" --lr-drops 0.5
expect 0 '^image_size = 0 .*0: the data.s own size' cat "$work/step/config.toml"
expect 2 '--epochs has no effect with --steps 1' "$frn" train --out "$work/x" --config "$work/step.toml" --epochs 3
# Once, not by every process and then by who started them.
once() { "$@" 2>&1 | tr '\n' '|'; }
expect 1 '^frn: \[train\] devices must be a multiple of the 2 processes but is 3; change one of the two\|$' \
  once "$frn" train --out "$work/x" --processes 2 --devices 3
expect 1 '^frn: \[train\] .*momentum[^|]*\|$' once "$frn" train --out "$work/x" --processes 2 --momentum 2
expect 1 '^frn: \[train\] .*holds no run to resume[^|]*\|$' once "$frn" train --out "$work/x" --processes 2 --resume
[[ ! -e "$work/x" ]] || { echo 'FAILED: a command that was refused left a folder'; failures=$((failures + 1)); }
expect 2 '^frn: \[train\] --steps needs a value; frn train --help' "$frn" train --out "$work/x" --steps
expect 2 "^frn: \[report\] unexpected argument 'b'; frn report --help" "$frn" report a b c
expect 2 '^frn: \[bench\] a command is required' "$frn" bench
expect 2 '^frn: \[bench kernels\] --map takes 4 values' "$frn" bench kernels --map 1 2

((failures == 0)) && echo "all commands behaved"
exit $((failures > 0))
