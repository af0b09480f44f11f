"""Which parameters weight decay touches."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from frn.modules import NormAct

# _NormBase: batch and instance norms of all ranks.
_NORMS_AND_ACTIVATIONS = (NormAct, _NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.PReLU)


def _is_norm_or_activation(module: nn.Module) -> bool:
    if isinstance(module, _NORMS_AND_ACTIVATIONS):
        return True
    # Norms of other libraries, such as timm's FilterResponseNormTlu2d, derive from nn.Module alone: by their name, and
    # because all they have is one number per channel.
    own = list(module.parameters(recurse=False))
    return "norm" in type(module).__name__.lower() and all(max(p.shape, default=1) == p.numel() for p in own)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The model's parameters for torch.optim: with weight decay, and without it.

        optimizer = torch.optim.SGD(frn.parameter_groups(model, weight_decay=1e-4), lr=0.1, momentum=0.9)

    Norms (weight, bias, tau, kappa and a learned eps), activations that learn, gains of standardised weights, and biases
    are not decayed. What a parameter belongs to decides, not its shape: FRN's eps is one number, and a linear layer of one
    output has a weight as flat as a bias. Parameters that do not require gradients are left out; a shared one is there
    once, and is not decayed if one of its places says so.
    """
    if weight_decay < 0:
        raise ValueError(f"[parameter_groups] weight_decay must be at least 0 but is {weight_decay}")
    decays: dict[nn.Parameter, bool] = {}
    for module in model.modules():
        scales = _is_norm_or_activation(module)
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if not parameter.requires_grad:
                continue
            # bias_ih_l0 of nn.LSTM and in_proj_bias of nn.MultiheadAttention are biases too
            exempt = scales or name == "gain" or "bias" in name.split("_")
            decays[parameter] = decays.get(parameter, True) and not exempt
    groups = {True: [p for p, yes in decays.items() if yes], False: [p for p, yes in decays.items() if not yes]}
    both = [{"params": groups[True], "weight_decay": weight_decay}, {"params": groups[False], "weight_decay": 0.0}]
    return [group for group in both if group["params"]]
