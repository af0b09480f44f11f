#!/usr/bin/env python3
"""The end of a residual block, act(norm(x) + shortcut), as one operator and as the three, in one run.

Times mean little on a shared machine, ratios taken side by side do: every round runs each in turn, and the fastest of
each counts.

    python bench/residual_end.py --spec frn+tlu --rounds 12
"""

from __future__ import annotations

import argparse
import time

from peers import use_tcmalloc

MAPS = [(256, 56), (512, 28), (1024, 14), (2048, 7)]  # where the blocks of a ResNet-50 end, at 224 px
LAYOUTS = ["contiguous", "channels-last"]
TYPES = ["float32", "bfloat16"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", default="frn+tlu", help="norm and activation")
    parser.add_argument("--batch", type=int, default=16, help="images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    use_tcmalloc()

    import torch

    import frn

    torch.set_num_threads(options.threads)

    def seconds(run) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    def ratios(shape, dtype, layout) -> tuple[float, float]:
        memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
        x, shortcut, dz = (torch.randn(shape).to(dtype).to(memory_format=memory_format) for _ in range(3))
        end = frn.NormAddAct(shape[1], options.spec)
        inputs = [x.requires_grad_(), shortcut.requires_grad_(), *end.parameters()]
        forwards = [lambda: end(x, shortcut), lambda: end.act(end.norm(x) + shortcut)]
        best = [[float("inf")] * 2, [float("inf")] * 2]  # forward, with backward; of one operator, of three
        for _ in range(options.rounds):
            for i, forward in enumerate(forwards):
                with torch.no_grad():
                    best[0][i] = min(best[0][i], seconds(forward))
                best[1][i] = min(best[1][i], seconds(lambda: torch.autograd.grad(forward(), inputs, dz)))
        return best[0][1] / best[0][0], best[1][1] / best[1][0]

    print(f"{options.spec}, {options.batch} images, {options.threads} threads: how many times as fast one operator is as the three")
    print(f"{'map':>22}{'layout':>15}{'type':>10}{'forward':>9}  forward and backward")
    for channels, size in MAPS:
        for layout in LAYOUTS:
            for name in TYPES:
                shape = (options.batch, channels, size, size)
                forward, both = ratios(shape, getattr(torch, name), layout)
                print(f"{'x'.join(map(str, shape)):>22}{layout:>15}{name:>10}{forward:9.2f}{both:9.2f}", flush=True)


if __name__ == "__main__":
    main()
