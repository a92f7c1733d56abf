"""Checks of connection arguments that servers share."""

from typing import Any

from holdfast.core.errors import InvalidInput


def revealed(password: Any) -> str:
    """The password, which may be a `SecretStr`."""
    if hasattr(password, "get_secret_value"):  # pydantic's, or anything like it
        password = password.get_secret_value()
    if not isinstance(password, str):
        raise InvalidInput(f"password must be a string or a SecretStr, got {type(password).__name__}")
    return password


def check_pool_sizes(min_pool_size: object, max_pool_size: object) -> None:
    """Whole numbers, the first not above the second."""
    if not (
        type(min_pool_size) is int and type(max_pool_size) is int and 0 <= min_pool_size <= max_pool_size > 0
    ):
        raise InvalidInput(
            "min_pool_size and max_pool_size must be whole numbers with 0 <= min_pool_size <= max_pool_size > 0,"
            f" got {min_pool_size!r} and {max_pool_size!r}"
        )
