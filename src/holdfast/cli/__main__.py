"""``python -m holdfast.cli`` is the command `holdfast`."""

from holdfast.cli import main

main()
