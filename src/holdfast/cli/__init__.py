"""The command `holdfast`. It needs the extra ``cli``; importing this package alone needs nothing."""

import sys
from collections.abc import Sequence

MISSING = 4


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; see ``holdfast --help`` for what the codes mean."""
    try:
        import click  # noqa: F401 - whether they are there is the question
        import rich  # noqa: F401 - likewise
    except ImportError as error:
        sys.stderr.write(f"error: the command line needs {error.name}: pip install 'holdfast[cli]'\n")
        raise SystemExit(MISSING) from None
    from holdfast.cli.commands import app

    app.main(args=None if args is None else list(args), prog_name="holdfast")
