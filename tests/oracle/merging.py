"""What Oracle would refuse in a MERGE, or PostgreSQL would take for something else."""

from collections.abc import Iterator

from sqlglot import exp

from tests.oracle.failing import ora


def check_merge(tree: exp.Expr, release: int) -> None:
    """See `rules`. One branch for rows that are there, one for rows that are not: more is not Oracle's."""
    if not isinstance(tree, exp.Merge):
        return
    if not isinstance(tree.args["on"], exp.Paren):
        raise ora(906, "missing left parenthesis: the condition of a MERGE is in parentheses")
    branches = tree.args["whens"].expressions
    for when in branches:
        wanted = exp.Update if when.args["matched"] else exp.Insert
        if when.args.get("source") or not isinstance(when.args["then"], wanted):
            raise ora(905, f"missing keyword: {when.sql('oracle')} is not Oracle's")
    if len(branches) > len({when.args["matched"] for when in branches}):
        raise ora(933, "SQL command not properly ended: a MERGE has one branch of a kind")
    _check_columns(tree)


def _check_columns(tree: exp.Merge) -> None:
    target = tree.this.alias_or_name.lower()
    found = {
        column.name.lower()
        for column in tree.args["on"].find_all(exp.Column)
        if column.table.lower() in (target, "")
    }
    for column in _assigned(tree):
        if column.table.lower() not in (target, ""):
            raise ora(904, f"{column.sql()}: invalid identifier")
        if column.name.lower() in found:
            raise ora(38104, f"Columns referenced in the ON Clause cannot be updated: {column.sql()}")


def _assigned(tree: exp.Merge) -> Iterator[exp.Column]:
    for when in tree.args["whens"].expressions:
        if isinstance(when.args["then"], exp.Update):
            for assignment in when.args["then"].expressions:
                yield assignment.this


def merge_sources(tree: exp.Expr) -> frozenset[str]:
    """Binds in the source and in the condition: values of a select list, or compared."""
    if not isinstance(tree, exp.Merge):
        return frozenset()
    parts = (tree.args["using"], tree.args["on"])
    return frozenset(str(node.this) for part in parts for node in part.find_all(exp.Placeholder))
