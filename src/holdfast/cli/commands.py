"""All commands, gathered: importing this module registers them."""

from holdfast.cli import changing, chat, comparing, finding, moving, reading, status
from holdfast.cli.app import app

__all__ = ["app", "changing", "chat", "comparing", "finding", "moving", "reading", "status"]
