"""The layers: one normalisation with its activation, named as in the C++ library and with the same state dict."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.module import _has_any_global_hook

from frn import ops, sync
from frn.spec import EPS_FLOOR, NormActSpec


class NormAct(nn.Module):
    """A normalisation with its activation, for x of shape [N, channels, *].

        NormAct(64, "frn+tlu")                       the paper's layer
        NormAct(64, "frn(eps=learned)+tlu")          for maps of one value and fully connected layers
        NormAct(64, "gn(groups=32)+relu"), NormAct(64, "bn+relu"), ...

    Parameters, where the method or the activation has them: `weight` (starts at 1), `bias` (0), `tau` (0) and `kappa`
    (0.25), all of shape [channels], and `eps` of shape [], or [channels] with eps_shape=channel (the learned part of eps; a
    fixed eps is not in the state dict). Batch methods have PyTorch's buffers.

    Args:
        channels: the size of x's dimension 1.
        spec: norm and activation by name; `frn info norms` and frn.NORMS, frn.ACTIVATIONS list them.
        device, dtype: of the parameters, as in torch.nn.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    tau: nn.Parameter | None
    kappa: nn.Parameter | None
    eps: nn.Parameter | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        channels: int,
        spec: str | NormActSpec = "frn+tlu",
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if channels < 1:
            raise ValueError(f"[{spec}] a layer must have at least 1 channel but is asked for {channels}")
        self.spec = NormActSpec.parse(spec)
        self.channels = channels
        self.groups = self.spec.groups(channels)

        def parameter(used: bool, *shape: int) -> nn.Parameter | None:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) if used else None

        norm, activation = self.spec.norm, self.spec.activation
        self.weight = parameter(norm.affine, channels)
        self.bias = parameter(norm.affine, channels)
        self.tau = parameter(activation.uses_tau, channels)
        self.kappa = parameter(activation.uses_kappa, channels)
        self.eps = parameter(self.spec.eps_learned, *([channels] if self.spec.eps_per_channel else []))
        if norm.batch_method:
            self.register_buffer("running_mean", torch.zeros(channels, device=device, dtype=dtype))
            self.register_buffer("running_var", torch.ones(channels, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Gives parameters and running statistics the values they start with."""
        # Both forms of a learned eps start from the same eps.
        eps_start = math.log(self.spec.eps_start) if self.spec.eps_exponential else self.spec.eps_start
        starts = {"weight": 1.0, "bias": 0.0, "eps": eps_start, "tau": 0.0, "kappa": 0.25}
        for name, parameter in self.named_parameters(recurse=False):
            nn.init.constant_(parameter, starts[name])
        if self.spec.norm.batch_method:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def current_eps(self) -> Tensor | float:
        """The eps that the normalisation adds; differentiable in `self.eps` when it is learned."""
        if self.eps is None:
            return self.spec.eps
        return _learned_eps(self.eps, self.spec.eps_exponential)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, channels, *] of float32, float64, bfloat16 or float16, contiguous or channels-last; so is the result."""
        norm, activation = self.spec.norm, self.spec.activation.name
        try:  # costs nothing where nothing is wrong
            if norm.batch_method or norm.group_rule == "none":
                y = self._batch_norm(x) if norm.batch_method else x
                return y if activation == "none" else ops.act(y, self.tau, self.kappa, activation=activation)
            tensors, settings = self._per_sample_arguments()
            return ops.norm_act(x, *tensors, **settings)
        except (RuntimeError, ValueError):
            _check_channels(str(self.spec), x, self.channels)
            raise

    def _per_sample_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What ops.norm_act takes besides x."""
        activation = self.spec.activation.name
        (weight, bias), tau = self._affine(), cast("Tensor | None", self.tau)
        if self.spec.proxy:
            # The same layer with other parameters, of which the threshold is one.
            weight, bias, tau = ops.proxy(weight, bias, tau, self.kappa)
            activation = "tlu" if self.kappa is None else "affine_tlu"
        settings = {"groups": self.groups, "centered": self.spec.norm.centered, "activation": activation}
        return (weight, bias, self.current_eps(), tau, self.kappa), settings

    def _affine(self) -> tuple[Tensor, Tensor]:
        """Weight and bias, which all norms have but `none`."""
        assert self.weight is not None and self.bias is not None
        return self.weight, self.bias

    def _batch_norm(self, x: Tensor) -> Tensor:
        momentum, eps = self._number("momentum"), self.spec.eps
        weight, bias = self._affine()
        running = (self.running_mean, self.running_var)
        if not self.training:
            return F.batch_norm(x, *running, weight, bias, eps=eps)
        bounds = None
        if self.spec.norm.name == "brn":
            bounds = {key: self._number(key) for key in ("warmup", "r_max", "r_end", "d_max", "d_end")}
        synced = self.spec.word("sync") == "true"
        return _batch_norm_step(x, weight, bias, *running, self.num_batches_tracked, momentum, eps, synced, bounds)

    def _number(self, key: str) -> float:
        """An option that always has a number."""
        value = self.spec.number(key)
        assert value is not None, key
        return value

    def extra_repr(self) -> str:
        return f"{self.channels}, {str(self.spec)!r}"


def _learned_eps(eps_l: Tensor, exponential: bool) -> Tensor:
    # 16 bits hold eps_l, but not 1e-6 beside 1e-4.
    wide = eps_l if eps_l.dtype == torch.float64 else eps_l.float()
    return (wide.exp() if exponential else wide.abs()) + EPS_FLOOR


def _batch_norm_step(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    momentum: float,
    eps: float,
    synced: bool,
    bounds: dict[str, float] | None,
) -> Tensor:
    """Batch norm in training: moves the running statistics and counts the batch. bounds: batch renormalisation's."""
    if bounds is not None and x.numel() > 0:
        scale, shift = _renorm(x, running_mean, running_var, batches, momentum, eps, bounds)
        y = F.batch_norm(x, None, None, weight * scale, bias + weight * shift, True, eps=eps)
    elif synced and sync.is_needed():
        y = sync.batch_norm(x, weight, bias, running_mean, running_var, momentum, eps)
    else:
        y = F.batch_norm(x, running_mean, running_var, weight, bias, True, momentum, eps)
    batches.add_(1)
    return y


# torch.fx records calls of these instead of running them: they ask for types and sizes, and change buffers.
fx.wrap("_learned_eps")
fx.wrap("_batch_norm_step")


@torch.no_grad()
def _renorm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    momentum: float,
    eps: float,
    bounds: dict[str, float],
) -> tuple[Tensor, Tensor]:
    """Batch Renormalization (Ioffe 2017): r and d, which bring y to eval mode's within bounds that grow."""

    def ramp(end: str) -> Tensor:
        begin, last = bounds["warmup"], bounds[end]
        rising = (batches - begin).clamp(min=0) / max(1.0, last - begin)
        return torch.where(batches >= last, torch.ones_like(rising), rising)

    dims = [i for i in range(x.dim()) if i != 1]
    var, mean = torch.var_mean(x.to(running_var.dtype), dims, correction=0)
    r_max = 1 + (bounds["r_max"] - 1) * ramp("r_end")
    d_max = bounds["d_max"] * ramp("d_end")
    sigma = (running_var + eps).sqrt()
    r = torch.clamp((var + eps).sqrt() / sigma, 1 / r_max, r_max)
    d = torch.clamp((mean - running_mean) / sigma, -d_max, d_max)
    values = x.numel() / x.size(1)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(var * (values / max(1.0, values - 1)), momentum)  # as batch norm's: unbiased
    return r, d


class FRN(NormAct):
    """The paper's layer, `NormAct(channels, "frn+tlu")`, with its choices as arguments.

    Args:
        eps: a number, "learned" (1e-6 + |eps_l|) or "learned_exp" (1e-6 + exp(eps_l)). Learn it where a map may have
            one value, and after fully connected layers.
        eps_shape: "scalar" or "channel", for a learned eps.
        eps_start: what a learned eps starts at; 1e-4 in the paper. With standardised weights, 1 trains better.
        proxy: also normalise what the activation gives, by what it would give for normal numbers (proxy normalisation).
        activation: none, relu, tlu, prelu or affine_tlu.
    """

    def __init__(
        self,
        channels: int,
        eps: float | str = 1e-6,
        eps_shape: str = "scalar",
        activation: str = "tlu",
        *,
        eps_start: float | None = None,
        proxy: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = f"eps={eps}"
        if eps_shape != "scalar":
            options += f",eps_shape={eps_shape}"
        if eps_start is not None:
            options += f",eps_start={eps_start}"
        if proxy:
            options += ",proxy=true"
        super().__init__(channels, f"frn({options})+{activation}", device=device, dtype=dtype)


def _check_channels(layer: str, x: Any, channels: int) -> None:
    """Says what the operator cannot know once it has refused x: which channels the layer was made for."""
    if not isinstance(x, Tensor) or (x.dim() > 1 and x.size(1) == channels):
        return
    no_samples = x.dim() < 2 or x.size(0) == channels
    remedy = "add the dimension of samples, x.unsqueeze(0)"
    if not no_samples:
        remedy = f"make the layer for {x.size(1)} channels, or give it another x"
    raise ValueError(f"[{layer}] x must have shape [N, {channels}, *] but has {list(x.shape)}; {remedy}") from None


def _called_as_written(module: nn.Module, *classes: type[nn.Module]) -> bool:
    """Whether a call of the module is its class's forward and nothing else: no class derived from those, no forward of
    its own, no hooks, also not of all modules."""
    if type(module) not in classes or "forward" in module.__dict__ or _has_any_global_hook():
        return False
    forward_hooks = module._forward_pre_hooks or module._forward_hooks
    return not (forward_hooks or module._backward_pre_hooks or module._backward_hooks)


class _NormActConv(nn.Module):
    conv: nn.Conv1d | nn.Conv2d | nn.Conv3d

    def __init__(self, channels: int, spec: str | NormActSpec, conv: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
        super().__init__()
        if isinstance(conv.padding, str) or conv.padding_mode != "zeros":
            raise ValueError(
                f"[{type(self).__name__}] padding must be numbers, and of zeros, but is {conv.padding!r} with "
                f"padding_mode={conv.padding_mode!r}; write dilation*(kernel - 1)/2 for 'same', and for another mode take a "
                "NormAct and a convolution"
            )
        weight = conv.weight
        self.norm = NormAct(channels, spec, device=weight.device, dtype=weight.dtype)
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, in_channels, *], as for NormAct; the result is the convolution's."""
        conv, norm = self.conv, self.norm.spec.norm
        as_written = _called_as_written(conv, nn.Conv1d, nn.Conv2d, nn.Conv3d) and _called_as_written(self.norm, NormAct)
        if norm.batch_method or norm.group_rule == "none" or not as_written or conv.padding_mode != "zeros":
            return conv(self.norm(x))
        tensors, settings = self.norm._per_sample_arguments()
        padding = cast("tuple[int, ...]", conv.padding)
        try:
            return ops.norm_act_conv(
                x,
                conv.weight,
                conv.bias,
                *tensors,
                **settings,
                stride=conv.stride,
                padding=padding,
                dilation=conv.dilation,
                conv_groups=conv.groups,
            )
        except (RuntimeError, ValueError):
            _check_channels(type(self).__name__, x, self.norm.channels)
            raise


class NormActConv1d(_NormActConv):
    """NormActConv2d for x of shape [N, in_channels, length]."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, spec: str | NormActSpec = "frn+tlu", **conv: Any
    ) -> None:
        super().__init__(in_channels, spec, nn.Conv1d(in_channels, out_channels, kernel_size, **conv))


class NormActConv2d(_NormActConv):
    """A norm with its activation and the convolution that reads them: `conv(norm(x))` with half of the memory.

        NormActConv2d(64, 128, 3, "frn+tlu", padding=1)

    Trained one after the other, the two keep two tensors of x's size for the gradients: x, and the activated result z.
    Here x alone is kept, and z is computed again when the filters' gradient needs it. The bits are the same, forward and
    backward. So it is for networks that normalise before they convolve (pre-activation) and for every convolution that
    is the only reader of the norm before it. Batch methods (bn, brn) and `none` run one after the other, and so do parts
    with hooks, parametrizations or another class in their place, such as WSConv2d.

    The parts are `norm` (a NormAct) and `conv` (a torch.nn.Conv2d), and so are the names in the state dict.

    Args:
        in_channels, out_channels, kernel_size: of the convolution; the norm has in_channels.
        spec: norm and activation by name, as for NormAct.
        **conv: stride, padding (numbers), dilation, groups, bias, device, dtype, as for torch.nn.Conv2d.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        spec: str | NormActSpec = "frn+tlu",
        **conv: Any,
    ) -> None:
        super().__init__(in_channels, spec, nn.Conv2d(in_channels, out_channels, kernel_size, **conv))


class NormActConv3d(_NormActConv):
    """NormActConv2d for x of shape [N, in_channels, depth, height, width]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        spec: str | NormActSpec = "frn+tlu",
        **conv: Any,
    ) -> None:
        super().__init__(in_channels, spec, nn.Conv3d(in_channels, out_channels, kernel_size, **conv))


class NormAddAct(nn.Module):
    """The end of a residual block, `act(norm(x) + shortcut)`, in one pass over memory.

        end = NormAddAct(64, "frn+tlu")
        z = end(x, shortcut)

    The parts are `norm` (a NormAct without an activation) and `act` (one without a norm), and so are the names in the
    state dict. For the gradients x and the shortcut are kept, not the sum; the bits are those of the parts one after the
    other in float32 and float64, and 16-bit results are rounded once. Batch methods (bn, brn) and `none` run one after the
    other, and so do parts with hooks or another class in their place. `proxy=true` changes nothing: the norm before an
    addition has no activation to normalise.

    Args:
        channels: the size of x's dimension 1.
        spec: norm and activation by name, as for NormAct.
        device, dtype: of the parameters, as in torch.nn.
    """

    def __init__(
        self,
        channels: int,
        spec: str | NormActSpec = "frn+tlu",
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        parsed = NormActSpec.parse(spec)
        self.norm = NormAct(channels, parsed.with_activation("none"), device=device, dtype=dtype)
        self.act = NormAct(channels, f"none+{parsed.activation.name}", device=device, dtype=dtype)

    def forward(self, x: Tensor, shortcut: Tensor) -> Tensor:
        """x: [N, channels, *], as for NormAct; shortcut: of the same shape. The result is like x."""
        norm, act = self.norm, self.act
        as_written = _called_as_written(norm, NormAct) and _called_as_written(act, NormAct)
        if not as_written or norm.spec.norm.batch_method or norm.spec.norm.group_rule == "none":
            return act(norm(x) + shortcut)
        (weight, bias, eps, _, _), settings = norm._per_sample_arguments()
        settings["activation"] = act.spec.activation.name
        try:
            return ops.norm_add_act(x, shortcut, weight, bias, eps, act.tau, act.kappa, **settings)
        except (RuntimeError, ValueError):
            _check_channels(type(self).__name__, x, norm.channels)
            raise


class WSConv2d(nn.Conv2d):
    """A convolution that standardises its weights where it uses them (weight standardisation).

    Each filter w of fan-in n becomes (w - mean(w))/sqrt(var(w) + eps), times a factor that `form` names:

        "plain": 1 (timm's StdConv2d)
        "scaled": 1/sqrt(n)
        "gain": gain/sqrt(n), where the parameter `gain` [out, 1, 1, 1] starts at 1 (timm's ScaledStdConv2d)

    Everything else is as in torch.nn.Conv2d, the state dict too but for the gain.
    """

    gain: nn.Parameter | None

    def __init__(self, *args: Any, form: str = "scaled", eps: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if form not in ("plain", "scaled", "gain"):
            raise ValueError(f"[WSConv2d] form must be plain, scaled or gain but is {form!r}")
        self.form, self.eps = form, eps
        gain = torch.ones((self.out_channels, 1, 1, 1), device=self.weight.device, dtype=self.weight.dtype)
        self.register_parameter("gain", nn.Parameter(gain) if form == "gain" else None)

    def standardised_weight(self) -> Tensor:
        """The filters that the convolution uses; differentiable twice."""
        return ops.standardise(self.weight, self.gain, scaled=self.form != "plain", eps=self.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.standardised_weight(), self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, form={self.form!r}"
