"""What a conversion did, to read and to look up."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Change:
    """One place: its name in the converted model, what it was and what it became."""

    name: str
    was: str
    became: str


@dataclass(frozen=True)
class Left:
    """One place that stayed as it was, and why."""

    name: str
    what: str
    why: str


@dataclass
class ConversionReport:
    """What `frn.convert` did. `print(report)` groups places by name; the fields have each of them."""

    model: str
    spec: str
    init: str
    converted: list[Change] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    rewritten: dict[str, str] = field(default_factory=dict)  # modules that got a generated forward, and their classes
    single_values: list[str] = field(default_factory=list)  # norms that see one value per channel
    warnings: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many places became what, such as {"frn+tlu": 9, "frn+none": 11, "none+tlu": 8}."""
        found = Counter(change.became for change in self.converted)
        return {spec: found[spec] for spec in sorted(found, key=lambda spec: (spec.startswith("none"), -found[spec]))}

    def __str__(self) -> str:
        title = f"{self.model} to {self.spec} (init={self.init})"
        if not self.converted:
            lines = [f"{title}: nothing to convert, there is no batch norm in it"]
        else:
            lines = [f"{title}: " + ", ".join(f"{count} {name}" for name, count in self.counts.items())]
            lines += _table("converted", [(c.name, c.was, f"-> {c.became}") for c in self.converted])
        lines += _table("left as it was", [(c.name, c.what, c.why) for c in self.left])
        if self.rewritten:
            classes = Counter(self.rewritten.values())
            lines.append("forward generated in: " + ", ".join(f"{count} {kind}" for kind, count in classes.items()))
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def _table(title: str, rows: list[tuple[str, str, str]]) -> list[str]:
    """Rows that differ in the numbers of their modules alone are one: layer1.0.bn1 and layer2.1.bn1 are layer*.*.bn1."""
    if not rows:
        return []
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for name, what, how in rows:
        pattern = re.sub(r"\d+(?=\.)|(?<![^.])\d+$", "*", name)
        grouped.setdefault((pattern, what, how), []).append(name)
    shown = [
        (names[0] if len(names) == 1 else pattern, str(len(names)), what, how)
        for (pattern, what, how), names in grouped.items()
    ]
    widths = [max(len(row[i]) for row in shown) for i in range(4)]
    lines = [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in shown]
    return [f"{title}:", *lines]
