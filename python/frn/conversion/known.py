"""What the converter knows: batch norms, ReLUs, and what a tensor may pass between a norm and its activation."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

# Exact types: a subclass may do more than its base, and what it does would be lost.
_TORCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
# By name, so that neither library has to be there.
_OTHER_NORMS = {
    "torchvision.ops.misc.FrozenBatchNorm2d",
    "timm.layers.norm_act.BatchNormAct2d",
    "timm.layers.norm_act.SyncBatchNormAct",
    "timm.layers.norm_act.FrozenBatchNormAct2d",
}


@dataclass(frozen=True)
class BatchNorm:
    """A batch norm of any of the known classes, as plain values."""

    kind: str
    channels: int
    eps: float
    momentum: float | None
    averages_all: bool  # momentum=None in PyTorch: running statistics are the mean of all batches
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    like: Tensor  # a tensor of the type and on the device that parameters are to have
    frozen: bool  # its weight and bias did not learn
    activation: nn.Module | None  # timm's layers bring one along
    drop: nn.Module | None


def _full_name(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _or_none(module: nn.Module | None) -> nn.Module | None:
    return None if module is None or isinstance(module, nn.Identity) else module


def is_batch_norm(module: nn.Module) -> bool:
    return type(module) in _TORCH_NORMS or _full_name(module) in _OTHER_NORMS


def unknown_batch_norm(module: nn.Module) -> str:
    """Why the module is a batch norm that cannot be converted; empty for all others."""
    kind = type(module).__name__
    if is_batch_norm(module):
        return ""
    if isinstance(module, nn.modules.lazy.LazyModuleMixin) and isinstance(module, _BatchNorm):
        return f"a {kind}, which has not seen its channels yet; run the model once before"
    if isinstance(module, _BatchNorm):
        base = next(c.__name__ for c in type(module).__mro__ if c in (*_TORCH_NORMS, _BatchNorm))
        return f"a {kind}, a subclass of {base} that does something else; put a {base} in its place before"
    if "BatchNorm" in kind and not any(is_batch_norm(child) for child in module.modules()):
        return f"a {_full_name(module)}, which is unknown; put a BatchNorm2d in its place before"
    return ""


def read_batch_norm(module: Any, near: Tensor | None = None) -> BatchNorm:
    """near: a tensor of the type and on the device that a norm without any tensors is to have."""
    weight, bias, mean = module.weight, module.bias, module.running_mean
    known = next((t for t in (weight, mean, near) if t is not None), torch.empty(0))
    channels = getattr(module, "num_features", None) or known.numel()
    momentum = getattr(module, "momentum", None)
    return BatchNorm(
        kind=type(module).__name__,
        channels=channels,
        eps=module.eps,
        momentum=momentum,
        averages_all=momentum is None and hasattr(module, "momentum"),
        weight=weight,
        bias=bias,
        running_mean=mean,
        running_var=module.running_var,
        like=known,
        frozen=weight is not None and not weight.requires_grad,
        activation=_or_none(getattr(module, "act", None)),
        drop=_or_none(getattr(module, "drop", None)),
    )


def is_relu(module: nn.Module) -> bool:
    return type(module) is nn.ReLU


RELU_FUNCTIONS = {F.relu, F.relu_, torch.relu, torch.relu_}
RELU_METHODS = {"relu", "relu_"}

# A sum of normalised tensors is what a residual network activates; a gate's product keeps its channels too.
COMBINING = {operator.add, operator.iadd, operator.sub, operator.isub, operator.mul, operator.imul, torch.add, torch.sub,
             torch.mul}  # fmt: skip
COMBINING_METHODS = {"add", "add_", "sub", "sub_", "mul", "mul_"}
JOINING = {torch.cat, torch.concat, torch.concatenate}

# Keeps the channels and does not cut off what is negative.
PASSING_FUNCTIONS = {F.dropout, F.dropout2d, F.dropout3d, F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.interpolate}
PASSING_METHODS = {"contiguous", "clone", "to", "float"}
_PASSING_MODULES = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Upsample, nn.MaxPool1d,
                    nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool2d)  # fmt: skip
_PASSING_NAMES = {"DropPath", "DropBlock2d", "StochasticDepth"}


def is_passing(module: nn.Module) -> bool:
    return isinstance(module, _PASSING_MODULES) or type(module).__name__ in _PASSING_NAMES


def other_activation(module: nn.Module) -> bool:
    """Whether the module is an activation that stays as it is, such as SiLU."""
    return type(module).__module__ == nn.ReLU.__module__ and not is_relu(module) and not list(module.children())
