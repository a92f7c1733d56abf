"""`schema`."""

import click

from holdfast.cli.app import Command, app, settings_now
from holdfast.memory.backends.schemas import DIALECTS, ddl


@app.command("schema", cls=Command, examples=("schema sqlite", "schema sqlite | sqlite3 holdfast.db"))
@click.argument("database", type=click.Choice(sorted(DIALECTS)))
@click.option(
    "--table-name",
    metavar="NAME",
    default="holdfast",
    show_default=True,
    help="Threads' tables begin with it.",
)
@click.option(
    "--items-table", metavar="NAME", default="holdfast_items", show_default=True, help="The store's items."
)
@click.option("--dimension", metavar="N", type=int, default=None, help="PostgreSQL: with pgvector's index.")
@click.option("--metric", metavar="NAME", default=None, help="With --dimension; COSINE if it is left out.")
@click.option("--row-security", is_flag=True, help="PostgreSQL: the server itself keeps tenants apart.")
@click.option(
    "--operators", metavar="ROLE", default=None, help="With --row-security: who may see all tenants at once."
)
@click.option("--partitions", metavar="N", type=int, default=None, help="PostgreSQL: in so many partitions.")
def schema(
    database: str,
    table_name: str,
    items_table: str,
    *,
    dimension: int | None,
    metric: str | None,
    row_security: bool,
    operators: str | None,
    partitions: int | None,
) -> None:
    """Print the statements that create the tables, for a database in which programs may not.

    They can be run again. Programs then open it with auto_create_table=False.
    """
    if operators is not None and not row_security:
        raise click.UsageError("--operators is for --row-security")
    if metric is not None and dimension is None:
        raise click.UsageError("--metric is for --dimension")
    given = {
        "dimension": dimension,
        "distance_metric": metric,
        "row_security": row_security or None,
        "operators": operators,
        "partitions": partitions,
    }
    options = {name: value for name, value in given.items() if value is not None}
    statements = ddl(database, table_name=table_name, items_table=items_table, **options)
    out = settings_now().output()
    if out.as_json:
        out.json({"database": database, "statements": statements})
    else:
        for statement in statements:
            out.line(f"{statement};")
