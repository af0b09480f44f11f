"""Batch norm over the batches of several processes, as if they were one batch: bn(sync=true).

torch.nn.SyncBatchNorm does this on GPUs alone; this runs wherever torch.distributed does.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


def is_needed() -> bool:
    """Whether there are other processes to share statistics with."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _gather(own: Tensor) -> Tensor:
    """Every rank's row, stacked in the order of ranks."""
    rows = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, own.contiguous())
    return torch.stack(rows)


class _SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum, eps):
        wide, dims = weight.dtype, [i for i in range(x.dim()) if i != 1]
        channels, count = x.size(1), x.numel() // x.size(1)
        row = torch.zeros(2 * channels + 1, dtype=torch.float64, device=x.device)
        if count > 0:
            var, mean = torch.var_mean(x.to(wide), dims, correction=0)
            row[:channels], row[channels:-1], row[-1] = mean, var.double() * count, count
        rows = _gather(row)
        # Chan, Golub and LeVeque's formula, in double and in the order of ranks: all ranks get the same bits.
        counts, means = rows[:, -1:], rows[:, :channels]
        total = counts.sum()
        if total <= 1:
            raise ValueError(
                f"[bn] training needs more than 1 value per channel on all processes together but x has shape "
                f"{list(x.shape)}; take more samples, or a per-sample method such as frn"
            )
        mean = (counts * means).sum(0) / total
        var = (rows[:, channels:-1].sum(0) + (counts * (means - mean).square()).sum(0)) / total
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        running_var.lerp_((var * (total / (total - 1))).to(running_var.dtype), momentum)
        mean, var = mean.to(wide), var.to(wide)
        ctx.save_for_backward(x, weight, mean, var, total)
        ctx.eps = eps
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        x, weight, mean, var, total = ctx.saved_tensors
        dims = [i for i in range(x.dim()) if i != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        inverse = (var + ctx.eps).rsqrt()
        xhat = (x.to(weight.dtype) - mean.view(shape)) * inverse.view(shape)
        wide_dy = dy.to(weight.dtype)
        # This rank's share; the reduction of gradients adds the shares up.
        dweight, dbias = (wide_dy * xhat).sum(dims), wide_dy.sum(dims)
        dot, sum_ = (_gather(torch.cat([dweight, dbias])).sum(0) / total.to(weight.dtype)).chunk(2)
        dx = (weight * inverse).view(shape) * (wide_dy - sum_.view(shape) - xhat * dot.view(shape))
        return dx.to(x.dtype), dweight, dbias, None, None, None, None


def batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> Tensor:
    """y of this process's part x in training. All ranks call it, in the same order, on the default process group."""
    return _SyncBatchNorm.apply(x, weight, bias, running_mean, running_var, momentum, eps)
