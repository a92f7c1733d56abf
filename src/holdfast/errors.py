"""Public door to the error tree: see :mod:`holdfast.core.errors`."""

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    MissingExtra,
    ModelError,
    ModelUnavailable,
    SchemaMismatch,
    StorageFull,
    Unavailable,
    Unsupported,
    VectorMismatch,
)

__all__ = [
    "Closed",
    "Conflict",
    "Corrupt",
    "HoldfastError",
    "InvalidInput",
    "MissingExtra",
    "ModelError",
    "ModelUnavailable",
    "SchemaMismatch",
    "StorageFull",
    "Unavailable",
    "Unsupported",
    "VectorMismatch",
]
