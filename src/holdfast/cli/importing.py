"""Modules of the user's own, named on the command line."""

import importlib
import os
import sys
from types import ModuleType

from holdfast.cli.failures import USAGE, Failure


def import_named(name: str, option: str) -> ModuleType:
    """That module; one in the working directory is found too. ``option`` is what the user wrote, for the error."""
    here = os.getcwd()  # noqa: PTH109 - an entry of sys.path is a string
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise Failure(f"{option}: {name} needs {error.name}, which is missing", USAGE) from error
        raise Failure(f"{option}: there is no module {error.name!r} in {here}", USAGE) from error
    except Exception as error:
        raise Failure(f"{option}: importing it failed: {type(error).__name__}: {error}", USAGE) from error
