"""Rows that writers lock to take turns: few enough to be made in advance, many enough not to meet often."""

from typing import Final

SLOTS: Final = 256
_DIGITS: Final = " UNION ALL ".join(f"SELECT {digit} AS digit" for digit in range(16))
EVERY_SLOT: Final = f"(SELECT 16 * a.digit + b.digit AS slot FROM ({_DIGITS}) a CROSS JOIN ({_DIGITS}) b)"
"""The number of each slot, as a table."""
