"""All commands, gathered: importing this module registers them."""

from holdfast.cli import changing, comparing, finding, moving, reading, status
from holdfast.cli.app import app

__all__ = ["app", "changing", "comparing", "finding", "moving", "reading", "status"]
