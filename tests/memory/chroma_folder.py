"""Directories for Chroma. It syncs every write to the disk, which is not what most tests are about."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def chroma_folder() -> Iterator[Path]:
    """A directory to use and lose, in memory where the system has such."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder) / "chroma"
