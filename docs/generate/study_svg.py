"""Colours and texts of the pictures of docs/studies.

The colours can be distinguished with any kind of colour vision.
"""

from __future__ import annotations

from html import escape

INK, FAINT, GRID = "#1f2328", "#59626d", "#e3e6ea"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#6b5b00")


def svg_text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: int = 12,
    weight: str = "normal",
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    look = f'fill="{fill}" font-size="{size}" font-weight="{weight}"'
    return f"<text {place} {look}>{escape(text)}</text>"
