"""Names of layers, `norm[(key=value,...)]+activation`: `frn+tlu`, `gn(groups=32)+relu`, `frn(eps=learned)+tlu`.

The tables and the rules are those of the C++ library (`frn info norms`); tests/parity compares the two.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

EPS_FLOOR = 1e-6  # section 3.3 of the paper: eps = 1e-6 + |eps_l|
LEARNED_EPS_START = 1e-4  # section 3.3
CHANNELS_PER_GROUP = 32  # section 4.1: "a group size of 32"

_LONGEST_TEXT = 256
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # what std::from_chars reads
_SPACE = " \t\r\n"


@dataclass(frozen=True)
class OptionRow:
    key: str
    kind: str = "none"  # the numbers it takes: "none", "real" or "integer", from min to max
    min: float = 0
    max: float = 0
    default: float | None = None
    words: tuple[str, ...] = ()  # what may stand instead of a number


@dataclass(frozen=True)
class NormRow:
    name: str
    centered: bool
    group_rule: str  # which channels share statistics: "channel", "sized", "layer"; "none": not a per-sample method
    batch_method: bool  # statistics over the batch
    default_eps: float  # 0: the method has none
    options: tuple[OptionRow, ...] = ()


@dataclass(frozen=True)
class ActivationRow:
    name: str
    uses_tau: bool = False
    uses_kappa: bool = False


_EPS = OptionRow("eps", "real", 1e-30, 1e6, words=("learned", "learned_exp"))
_EPS_SHAPE = OptionRow("eps_shape", words=("scalar", "channel"))
_GROUPS = OptionRow("groups", "integer", 1, 1 << 20)
_GROUP_SIZE = OptionRow("group_size", "integer", 1, 1 << 20, default=CHANNELS_PER_GROUP)
_BATCH_EPS = OptionRow("eps", "real", 1e-30, 1e6)

_CHANNEL_OPTIONS = (_EPS, _EPS_SHAPE)
_SIZED_OPTIONS = (_EPS, _GROUPS, _GROUP_SIZE)
_SYNC = OptionRow("sync", words=("true", "false"))
_BATCH_OPTIONS = (_BATCH_EPS, OptionRow("momentum", "real", 0, 1, default=0.1), _SYNC)
_RENORM_OPTIONS = (  # the defaults are those of Ioffe's ImageNet runs ("Batch Renormalization", 2017)
    _BATCH_EPS,
    OptionRow("momentum", "real", 0, 1, default=0.01),
    OptionRow("r_max", "real", 1, 1e6, default=3),
    OptionRow("d_max", "real", 0, 1e6, default=5),
    OptionRow("warmup", "integer", 0, 1e12, default=5000),
    OptionRow("r_end", "integer", 0, 1e12, default=40000),
    OptionRow("d_end", "integer", 0, 1e12, default=25000),
)

_NORM_ROWS = (
    NormRow("none", False, "none", False, 0),
    NormRow("frn", False, "channel", False, 1e-6, _CHANNEL_OPTIONS),
    NormRow("gfrn", False, "sized", False, 1e-6, _SIZED_OPTIONS),
    NormRow("lfrn", False, "layer", False, 1e-6, (_EPS,)),
    NormRow("in", True, "channel", False, 1e-5, _CHANNEL_OPTIONS),
    NormRow("gn", True, "sized", False, 1e-5, _SIZED_OPTIONS),
    NormRow("ln", True, "layer", False, 1e-5, (_EPS,)),
    NormRow("bn", True, "none", True, 1e-5, _BATCH_OPTIONS),
    NormRow("brn", True, "none", True, 1e-5, _RENORM_OPTIONS),
)
_ACTIVATION_ROWS = (
    ActivationRow("none"),
    ActivationRow("relu"),
    ActivationRow("tlu", uses_tau=True),
    ActivationRow("prelu", uses_kappa=True),
    ActivationRow("affine_tlu", uses_tau=True, uses_kappa=True),
)
NORMS = {row.name: row for row in _NORM_ROWS}
ACTIVATIONS = {row.name: row for row in _ACTIVATION_ROWS}


@dataclass(frozen=True)
class NormActSpec:
    """A method with its options and an activation: a value that can be compared, printed and pickled."""

    norm: NormRow
    activation: ActivationRow
    options: dict[str, float | str] = field(default_factory=dict, hash=False)  # as written, in the table's order

    @staticmethod
    def parse(text: str | NormActSpec) -> NormActSpec:
        """Raises ValueError, which says what to write instead."""
        if isinstance(text, NormActSpec):
            return text
        text = text.strip(_SPACE)
        if not text:
            raise _error("expected norm+activation, such as frn+tlu, but got an empty name")
        if len(text) > _LONGEST_TEXT:
            raise _error(
                f"a name must have at most {_LONGEST_TEXT} characters but has {len(text)}, "
                f"starting with '{text[:32]}'"
            )
        norm_name, options_text, activation_name = _split(text)
        norm = _lookup("norm", norm_name, NORMS)
        if activation_name is None:
            raise _error(
                f"'{text}' names no activation: write {text}+activation with one of {', '.join(ACTIVATIONS)}"
            )
        activation = _lookup("activation", activation_name, ACTIVATIONS)
        options = {} if options_text is None else _parse_options(norm, options_text)
        spec = NormActSpec(norm, activation, options)
        _check(spec)
        return spec

    def __str__(self) -> str:
        options = ",".join(f"{key}={_shortest(value)}" for key, value in self.options.items())
        return f"{self.norm.name}{f'({options})' if options else ''}+{self.activation.name}"

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

    @property
    def eps_learned(self) -> bool:
        return self.word("eps") != ""

    @property
    def eps_exponential(self) -> bool:
        """Whether eps = 1e-6 + exp(eps_l), the paper's alternative to 1e-6 + |eps_l|."""
        return self.word("eps") == "learned_exp"

    @property
    def eps(self) -> float:
        """The fixed value, or where training starts when eps is learned."""
        if self.eps_learned:
            return EPS_FLOOR + LEARNED_EPS_START
        written = self.number("eps")
        return self.norm.default_eps if written is None else written

    @property
    def eps_per_channel(self) -> bool:
        return self.word("eps_shape") == "channel"

    @property
    def channel_multiple(self) -> int:
        """A layer's channels must be a multiple of this: the group size or the number of groups; else 1."""
        if self.norm.group_rule != "sized":
            return 1
        return int(self.number("groups") or self.number("group_size"))

    def groups(self, channels: int) -> int:
        """Groups of a layer of so many channels, for per-sample methods. Raises ValueError when they do not divide."""
        if self.norm.group_rule == "channel":
            return channels
        if self.norm.group_rule != "sized":
            return 1
        unit, by_count = self.channel_multiple, "groups" in self.options
        if channels % unit == 0:
            return unit if by_count else channels // unit
        name, act = self.norm.name, f"+{self.activation.name}"
        raise _error(
            f"channels under {self} must be a multiple of its {unit} {'groups' if by_count else 'channels per group'} "
            f"but are {channels}; write {name}(group_size={math.gcd(channels, unit)}){act} or {name}(groups=N){act} "
            f"with an N that divides them, or take {(channels // unit + 1) * unit} channels"
        )

    def with_activation(self, name: str) -> NormActSpec:
        return replace(self, activation=_lookup("activation", name, ACTIVATIONS))


def _error(sentence: str) -> ValueError:
    return ValueError(f"[norm_act_spec] {sentence}")


def _suggestion(name: str, known) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _lookup(what: str, name: str, rows: dict):
    if name in rows:
        return rows[name]
    raise _error(f"{what} must be one of {', '.join(rows)} but is '{name}'{_suggestion(name, rows)}")


def _split(text: str) -> tuple[str, str | None, str | None]:
    """norm, what stands between the brackets, activation. Brackets first: a '+' inside them belongs to a number."""
    opening, plus = text.find("("), text.find("+")
    if opening < 0 or 0 <= plus < opening:
        norm, has_plus, activation = text.partition("+")
        return norm.strip(_SPACE), None, activation.strip(_SPACE) if has_plus else None
    closing = text.find(")", opening)
    if closing < 0:
        raise _error(f"'{text}' must close its bracket: write norm(key=value)+activation")
    rest = text[closing + 1 :].lstrip(_SPACE)
    if rest and not rest.startswith("+"):
        raise _error(f"after ')' must come +activation but '{text}' goes on with '{rest}'")
    return text[:opening].strip(_SPACE), text[opening + 1 : closing], rest[1:].strip(_SPACE) if rest else None


def _parse_options(norm: NormRow, text: str) -> dict[str, float | str]:
    written: dict[str, float | str] = {}
    for part in text.split(","):
        row, value = _split_option(norm, part.strip(_SPACE))
        if row.key in written:
            raise _error(f"option {row.key} of '{norm.name}' must stand once but stands twice")
        written[row.key] = _parse_value(norm, row, value)
    return {row.key: written[row.key] for row in norm.options if row.key in written}


def _split_option(norm: NormRow, text: str) -> tuple[OptionRow, str]:
    rows = {row.key: row for row in norm.options}
    known = ", ".join(rows)
    if not rows:
        raise _error(f"norm '{norm.name}' takes no options but got '{text}'")
    key, equals, value = (part.strip(_SPACE) for part in text.partition("="))
    if not equals:
        raise _error(f"an option of '{norm.name}' must be written key=value but is '{text}'; keys: {known}")
    if key not in rows:
        raise _error(f"an option of '{norm.name}' must be one of {known} but is '{key}'{_suggestion(key, rows)}")
    return rows[key], value


def _parse_value(norm: NormRow, row: OptionRow, text: str) -> float | str:
    if text in row.words:
        return text
    number = _parse_number(row, text)
    if number is None:
        raise _error(
            f"option {row.key} of '{norm.name}' must be {_expectation(row)} but is '{text}'"
            f"{_suggestion(text, row.words)}"
        )
    return number


def _parse_number(row: OptionRow, text: str) -> float | None:
    if row.kind == "none" or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    underflown = number == 0 and re.search(r"[1-9]", re.split("[eE]", text)[0])
    if underflown or not row.min <= number <= row.max:
        return None
    return None if row.kind == "integer" and not number.is_integer() else number


def _expectation(row: OptionRow) -> str:
    """ "a number from 0 to 1", "a whole number from 1 to 1048576, 'x' or 'y'" """
    kinds = [f"'{word}'" for word in row.words]
    if row.kind != "none":
        whole = "whole " if row.kind == "integer" else ""
        kinds.insert(0, f"a {whole}number from {_shortest(row.min)} to {_shortest(row.max)}")
    return " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))


def _shortest(value: float | str) -> str:
    """A word as it is; a number in the digits that std::to_chars writes: fixed or scientific, whichever is shorter."""
    if isinstance(value, str):
        return value
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    fixed = format(Decimal(repr(float(value))), "f")
    digits = len(fixed.lstrip("-").replace(".", "").strip("0"))
    return min(fixed, f"{value:.{digits - 1}e}", key=len)


def _check(spec: NormActSpec) -> None:
    """What options ask of each other."""
    if "eps_shape" in spec.options and not spec.eps_learned:
        raise _error(
            "eps_shape must come with a learned eps, as in (eps=learned,eps_shape=channel), but eps is fixed in "
            f"{spec}"
        )
    if "groups" in spec.options and "group_size" in spec.options:
        raise _error(f"groups and group_size exclude each other: keep one, but both stand in {spec}")
    if spec.norm.name != "brn":
        return
    warmup = spec.number("warmup")
    for key in ("r_end", "d_end"):
        if spec.number(key) < warmup:
            raise _error(
                f"{key} of 'brn' must be at least warmup, {_shortest(warmup)}, but is {_shortest(spec.number(key))}; "
                "give warmup, r_end and d_end"
            )
