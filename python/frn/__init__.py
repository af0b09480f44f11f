"""Filter Response Normalization for PyTorch: fused operators with gradients, and modules on top of them.

    layer = frn.NormAct(64, "frn+tlu")      # or gn+relu, frn(eps=learned)+tlu, bn+relu, ...
    z = frn.frn_tlu(x, weight, bias, tau)   # the paper's listing as one operator
    model, report = frn.convert(model)      # an existing network with FRN in place of batch norm
"""

from frn._library import load as _load

_load()  # registers the operators; the modules below use them

import torch as _torch  # noqa: E402

__version__: str = _torch.ops.frn.version()

from frn import onnx  # noqa: E402
from frn.conversion import ConversionReport, convert, revert  # noqa: E402
from frn.hub import load  # noqa: E402
from frn.modules import FRN, NormAct, NormActConv1d, NormActConv2d, NormActConv3d, NormAddAct, WSConv2d  # noqa: E402
from frn.ops import (  # noqa: E402
    act,
    force_implementation,
    frn_tlu,
    implementations,
    last_implementation,
    norm_act,
    norm_act_conv,
    norm_add_act,
    proxy,
    standardise,
)
from frn.optim import parameter_groups  # noqa: E402
from frn.spec import ACTIVATIONS, NORMS, NormActSpec  # noqa: E402

__all__ = [
    "ACTIVATIONS",
    "ConversionReport",
    "FRN",
    "NORMS",
    "NormAct",
    "NormActConv1d",
    "NormActConv2d",
    "NormActConv3d",
    "NormActSpec",
    "NormAddAct",
    "WSConv2d",
    "act",
    "convert",
    "force_implementation",
    "frn_tlu",
    "implementations",
    "last_implementation",
    "load",
    "norm_act",
    "norm_act_conv",
    "norm_add_act",
    "onnx",
    "parameter_groups",
    "proxy",
    "revert",
    "standardise",
]
