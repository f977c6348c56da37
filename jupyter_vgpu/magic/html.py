"""Pieces of HTML that the views share: colours that follow JupyterLab's theme, tables, small charts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# JupyterLab's own colours; the second value is for front ends that have none.
DIM = "color:var(--jp-ui-font-color2,#616161)"
LEFT = "text-align:left"
_LINE = "var(--jp-brand-color1,#1976d2)"
_GROUND = "var(--jp-layout-color3,#bdbdbd)"
_SPARKS = "▁▂▃▄▅▆▇█"


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of heads and contents; both are HTML already."""
    return "<table>" + "".join(row(head, content) for head, content in rows) + "</table>"


def row(head: str, content: str) -> str:
    """Return one row of a table; both are HTML already."""
    return f'<tr><th scope="row" style="{LEFT}">{head}</th><td style="{LEFT}">{content}</td></tr>'


def with_code(text: str) -> str:
    """Return a message as HTML; what stands between backticks in it is code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(parts))


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a line of heads; everything is text."""
    head = "".join(f'<th scope="col" style="{LEFT}">{escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{LEFT}">{escape(cell)}</td>' for cell in cells) + "</tr>" for cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def chart(values: Sequence[float], label: str, width: int = 240, height: int = 40) -> str:
    """Return a small line chart that begins at 0; empty for fewer than two values.

    Args:
        values: Evenly spaced, >= 0; of more than there are pixels, the most of each pixel's is drawn.
        label: What a screen reader says instead.
        width: In pixels.
        height: In pixels.
    """
    if len(values) < 2:
        return ""
    values = _most(values, width)
    top = max(values) or 1.0
    points = " ".join(
        f"{index * width / (len(values) - 1):.1f},{height - 2 - value / top * (height - 4):.1f}"
        for index, value in enumerate(values)
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="border-bottom:1px solid {_GROUND}">'
        f'<polyline points="{points}" fill="none" style="stroke:{_LINE};stroke-width:1.5"/></svg>'
    )


def sparks(values: Sequence[float], width: int = 40) -> str:
    """Return the same as one line of text, at most `width` characters; each shows the most of its part."""
    if len(values) < 2:
        return ""
    parts = _most(values, width)
    top = max(parts) or 1.0
    return "".join(_SPARKS[min(len(_SPARKS) - 1, int(value / top * len(_SPARKS)))] for value in parts)


def _most(values: Sequence[float], count: int) -> list[float]:
    """Return the most of each of `count` parts, which are as long as can be; the values where there are no more."""
    count = min(count, len(values))
    return [max(values[index * len(values) // count : (index + 1) * len(values) // count]) for index in range(count)]
