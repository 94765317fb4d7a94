"""Pieces of SVG and HTML as text. Every value is escaped here, whoever sent it; only `Markup` passes as it is."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

__all__ = ["drawing", "group", "joined", "link", "tag", "titled"]

Value = str | int | float | None


def tag(name: str, content: str = "", /, **attributes: Value) -> Markup:
    """Give an element; `class_` becomes `class`, `stroke_width` becomes `stroke-width`, and None leaves out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else _short(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{escape(content) if content else ''}</{name}>")  # noqa: S704


def joined(parts: Iterable[Markup]) -> Markup:
    """Give several pieces as one."""
    return Markup("").join(parts)


def group(parts: Iterable[Markup], **attributes: Value) -> Markup:
    """Give several pieces as one element."""
    return tag("g", joined(parts), **attributes)


def link(address: str, content: Markup, **attributes: Value) -> Markup:
    """Give a piece that leads to an address."""
    return tag("a", content, href=address, **attributes)


def titled(text: str) -> Markup:
    """Give the words that a piece shows when somebody points at it."""
    return tag("title", text)


def drawing(width: float, height: float, parts: Iterable[Markup], label: str, **attributes: Value) -> Markup:
    """Give a whole drawing; the label is for readers who cannot see it."""
    return tag(
        "svg",
        joined(parts),
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        **attributes,
    )


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
