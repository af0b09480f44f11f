"""Names of layers, `norm[(key=value,...)]+activation`: `frn+tlu`, `gn(groups=32)+relu`, `frn(eps=learned)+tlu`.

The tables and the parser are the library's (frn/spec); here they only get Python's types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property

import torch

EPS_FLOOR = 1e-6  # section 3.3 of the paper: eps = 1e-6 + |eps_l|
LEARNED_EPS_START = 1e-4  # section 3.3


@dataclass(frozen=True)
class OptionRow:
    key: str
    kind: str = "none"  # the numbers it takes: "none", "real" or "integer", from min to max
    min: float = 0
    max: float = 0
    default: float | None = None
    words: tuple[str, ...] = ()  # what may stand instead of a number
    description: str = ""


@dataclass(frozen=True)
class NormRow:
    name: str
    centered: bool
    group_rule: str  # which channels share statistics: "channel", "sized", "layer"; "none": not a per-sample method
    batch_method: bool  # statistics over the batch
    default_eps: float  # 0: the method has none
    options: tuple[OptionRow, ...] = ()
    affine: bool = True  # has weight and bias
    description: str = ""


@dataclass(frozen=True)
class ActivationRow:
    name: str
    uses_tau: bool = False
    uses_kappa: bool = False
    description: str = ""


def _norm_row(row: dict) -> NormRow:
    options = tuple(OptionRow(**option | {"words": tuple(option["words"])}) for option in row["options"])
    return NormRow(**row | {"options": options})


_TABLE = json.loads(torch.ops.frn.norm_table())
NORMS = {row["name"]: _norm_row(row) for row in _TABLE["norms"]}
ACTIVATIONS = {row["name"]: ActivationRow(**row) for row in _TABLE["activations"]}


@dataclass(frozen=True)
class NormActSpec:
    """A method with its options and an activation: a value that can be compared, printed and pickled.

    Properties are worked out once: a layer asks for them in every call, and with small maps that showed.
    """

    norm: NormRow
    activation: ActivationRow
    options: dict[str, float | str] = field(default_factory=dict, hash=False)  # as written, in the table's order

    def __post_init__(self) -> None:
        # Now: until Python 3.12 a cached_property has a lock, and torch.compile cannot take one.
        for name, value in vars(NormActSpec).items():
            if isinstance(value, cached_property):
                getattr(self, name)

    @staticmethod
    def parse(text: str | NormActSpec) -> NormActSpec:
        """Raises ValueError, which says what to write instead."""
        if isinstance(text, NormActSpec):
            return text
        parts = json.loads(torch.ops.frn.parse_spec(text))
        return NormActSpec(NORMS[parts["norm"]], ACTIVATIONS[parts["activation"]], parts["options"])

    def __str__(self) -> str:
        return json.loads(torch.ops.frn.parse_spec(self._text(self.activation.name)))["text"]

    def _text(self, activation: str) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.norm.name}{f'({options})' if options else ''}+{activation}"

    def number(self, key: str) -> float | None:
        """The option's number: as written, else its default; None when it is a word or neither is there."""
        if key in self.options:
            value = self.options[key]
            return None if isinstance(value, str) else value
        return next((row.default for row in self.norm.options if row.key == key), None)

    def word(self, key: str) -> str:
        """The option's word, empty when it is a number or not written."""
        value = self.options.get(key)
        return value if isinstance(value, str) else ""

    @cached_property
    def eps_learned(self) -> bool:
        return self.word("eps") != ""

    @cached_property
    def eps_exponential(self) -> bool:
        """Whether eps = 1e-6 + exp(eps_l), the paper's alternative to 1e-6 + |eps_l|."""
        return self.word("eps") == "learned_exp"

    @cached_property
    def eps(self) -> float:
        """The fixed value, or where training starts when eps is learned."""
        if self.eps_learned:
            return EPS_FLOOR + self.eps_start
        written = self.number("eps")
        return self.norm.default_eps if written is None else written

    @cached_property
    def eps_start(self) -> float:
        """What the learned part of eps starts at, in both forms."""
        written = self.number("eps_start")
        return LEARNED_EPS_START if written is None else written

    @cached_property
    def proxy(self) -> bool:
        """Whether the layer also normalises its activations. Without an activation there is nothing to normalise."""
        return self.word("proxy") == "true" and self.activation.name != "none"

    @cached_property
    def eps_per_channel(self) -> bool:
        return self.word("eps_shape") == "channel"

    @property
    def channel_multiple(self) -> int:
        """A layer's channels must be a multiple of this: the group size or the number of groups; else 1."""
        if self.norm.group_rule != "sized":
            return 1
        return int(self.number("groups") or self.number("group_size") or 1)

    def groups(self, channels: int) -> int:
        """Groups of a layer of so many channels, for per-sample methods. Raises ValueError when they do not divide."""
        return torch.ops.frn.spec_groups(self._text(self.activation.name), channels)

    def with_activation(self, name: str) -> NormActSpec:
        return NormActSpec.parse(self._text(name))
