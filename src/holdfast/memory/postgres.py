"""A memory in PostgreSQL."""

from typing import TYPE_CHECKING, Any, Self

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_engine import postgres_engine
from holdfast.memory.backends.postgres_store import PostgresStore
from holdfast.memory.embedder.base import store_options
from holdfast.memory.embedder.resolve import is_automatic, resolve_embedder
from holdfast.memory.embedder.sticky import StickyEmbedder

if TYPE_CHECKING:
    from holdfast.memory.embedder import Embedder

__all__ = ["PostgresMemory"]


class PostgresMemory(AgentMemory):
    """Episodes, blocks and facts in a PostgreSQL database, and the users' threads beside them, on one pool."""

    @classmethod
    def connect(
        cls,
        dsn: str | None = None,
        *,
        namespace: str = "default",
        embedder: "str | Embedder | None" = None,
        with_facts: bool = True,
        schema: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **connection: Any,
    ) -> Self:
        """The memory in that database. Nothing is opened before it is first used.

        Without a named ``embedder`` it stays with the one that made the vectors which are stored there.
        ``connection``: the arguments of `PostgresStore` about the connection, such as ``host`` or ``max_pool_size``.
        """
        automatic = is_automatic(embedder)
        found = None if automatic else resolve_embedder(embedder)
        engine = postgres_engine(dsn, schema=schema, **connection)
        store = PostgresStore(engine=engine, schema=schema, clock=clock, **store_options(found))
        return cls(
            store,
            PostgreSQLCheckpointer(engine=engine, owns_engine=True, schema=schema, clock=clock),
            namespace=namespace,
            embedder=StickyEmbedder(store, namespace) if automatic else found,
            with_facts=with_facts,
            clock=clock,
        )
