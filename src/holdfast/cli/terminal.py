"""Output in a terminal, drawn by rich. Stored text never reaches rich as markup."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.cli import text

if TYPE_CHECKING:
    from holdfast.cli.output import Column, Span


class Terminal:
    """Tables and paragraphs that fit the window."""

    def __init__(self, *, color: bool) -> None:
        self._console = Console(
            force_terminal=True,
            color_system="auto" if color else None,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=False,
        )
        self._now = datetime.now(UTC)

    def table(self, rows: Sequence[Sequence[Any]], columns: "Sequence[Column]") -> None:
        cut = any(column.cut for column in columns)
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, expand=cut)
        for column in columns:
            table.add_column(
                column.title or "",
                style=column.style,
                justify="right" if column.right else "left",
                overflow="ellipsis" if column.cut else "fold",
                no_wrap=column.cut,
                ratio=1 if column.cut else None,
            )
        for row in rows:
            table.add_row(*[self._cell(value) for value in row])
        self._console.print(table)

    def paragraph(
        self, spans: "Sequence[Span]", indent: int, *, hang: int = 0, highlight: Sequence[str] = ()
    ) -> None:
        """``hang``: the first so many columns stand out, further lines begin right of them."""
        body = Text.assemble(*[(part, style) for part, style in spans], overflow="fold")
        if highlight:
            words = "|".join(re.escape(word) for word in highlight)
            body.highlight_regex(rf"(?i)\b(?:{words})\w*", "bold yellow")
        if not hang:
            self._console.print(Padding(body, (0, 0, 0, indent), expand=False))
            return
        grid = Table.grid()
        grid.add_column(width=hang, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(body[:hang], body[hang:])
        self._console.print(grid)

    def _cell(self, value: Any) -> Text:
        if isinstance(value, datetime):
            return Text.assemble(text.moment(value), (f"  {text.age(value, self._now)}", "dim"))
        if isinstance(value, Mapping):
            return Text(text.pairs(value))
        if isinstance(value, float):
            return Text(f"{value:.2f}")
        if type(value) is int:
            return Text(f"{value:,}")
        return Text(text.cell(value))
