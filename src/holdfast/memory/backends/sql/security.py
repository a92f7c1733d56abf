"""Tenants that the database itself keeps apart: what an engine needs to know about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.core.errors import InvalidInput, Unavailable
from holdfast.memory.backends.sql.plan import Plan, Statement
from holdfast.memory.backends.sql.schema import Schema


class SecurityState(NamedTuple):
    """What the database says. ``on``: some of the tables are secured. ``role``: who asks; ``bypasses``: to whom it
    shows everything, whatever was said; ``operates``: who may ask for all tenants at once."""

    on: bool
    role: str
    bypasses: bool
    operates: bool


@dataclass(frozen=True, slots=True)
class Security:
    """How one component's tables are secured. ``required``: they must be; else it is used if they are.

    ``existing``: which of the tables are secured in full. ``state``: see :class:`SecurityState`. ``fence``: the
    statement at the beginning of a transaction that says for whom it is; ``None`` for an operator.
    """

    schema: Schema
    required: bool
    existing: Callable[[], Plan[set[str]]]
    state: Callable[[], Plan[SecurityState]]
    fence: Callable[[Sequence[Any] | None], Statement]

    def check(self, state: SecurityState, place: str) -> None:
        """Refuse a role for which it would be without effect, if it was asked for."""
        if self.required and state.bypasses:
            raise InvalidInput(
                f"row_security=True has no effect at {place} for the role {state.role!r}: it is a superuser or has"
                " BYPASSRLS, to whom the database shows every tenant; connect with another role"
            )


@dataclass(frozen=True, slots=True)
class Fences:
    """Secured tables, and whether this role may do what is about all tenants."""

    security: Security
    everything: bool
    place: str

    def around(self, places: Sequence[Any] | None) -> Statement:
        """What a transaction about these places begins with."""
        if places is None and not self.everything:
            raise Unavailable(
                f"{self.place}: this is about all tenants, and row security keeps them apart: connect with a role for"
                " operators (`holdfast schema postgresql --row-security --operators ROLE` prints what makes it one)"
            )
        return self.security.fence(places)
