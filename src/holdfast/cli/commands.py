"""All commands, gathered: importing this module registers them."""

from holdfast.cli import (
    changing,
    chat,
    comparing,
    embedding,
    finding,
    forgetting,
    knowing,
    migrating,
    moving,
    reading,
    remembered,
    schema,
    status,
)
from holdfast.cli.app import app

__all__ = [
    "app",
    "changing",
    "chat",
    "comparing",
    "embedding",
    "finding",
    "forgetting",
    "knowing",
    "migrating",
    "moving",
    "reading",
    "remembered",
    "schema",
    "status",
]
