"""From Oracle's SQL to PostgreSQL's: the tree of the text that the driver was given, nothing else.

Binds become marks, which are filled in with a type when the values are known: Oracle knows the type of a bind from
its value.
"""

import re
from functools import lru_cache
from typing import Any

from sqlglot import exp

from tests.oracle.failing import ora
from tests.oracle.rules import VECTOR_TYPE, Parsed, parse
from tests.oracle.words import MAX_BYTES, METRICS

MARK = "hf_bind_"
_MARKS = re.compile(rf"\b{MARK}(\w+?)_end\b", re.I)
COLUMN_COMMENT = "oracle {kind} {size}"
SIZES = {"NUMBER": 22, "FLOAT": 22, "CLOB": -1, "BLOB": -1, "JSON": -1, "VECTOR": -1}


@lru_cache(maxsize=4096)
def query_text(sql: str, release: int) -> str:
    """A query or a change, with marks where its binds are."""
    tree = parse(sql, release).tree
    assert tree is not None
    text: str = tree.copy().transform(_converted).sql("postgres")
    return text.replace("%", "%%")


def fill(text: str, casts: dict[str, str]) -> str:
    """The text with psycopg's placeholders, each cast to the type of its value."""
    return _filled(text, tuple(casts.items()))


@lru_cache(maxsize=4096)
def _filled(text: str, given: tuple[tuple[str, str], ...]) -> str:
    casts = dict(given)

    def placeholder(match: re.Match[str]) -> str:
        name = match[1].lower()
        cast = casts[name]
        return f"(%({name})s::{cast})" if cast else f"(%({name})s)"

    return _MARKS.sub(placeholder, text)


def _converted(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Placeholder):
        return exp.column(f"{MARK}{str(node.this).lower()}_end")
    if isinstance(node, exp.Literal) and node.is_string and node.this == "":
        return exp.null()
    if isinstance(node, exp.StrPosition | exp.Substring):
        name = "oracle_instr" if isinstance(node, exp.StrPosition) else "oracle_substr"
        parts = [node.this, *(node.args.get(part) for part in ("substr", "start", "length"))]
        return _call(name, *[part for part in parts if part is not None])
    if isinstance(node, exp.Greatest | exp.Least):
        return _null_if_any(node)
    if isinstance(node, exp.DPipe):
        raise ora(900, "the double does not know || with NULL: don't use it")
    if isinstance(node, exp.Column) and node.name.upper() == "NEXTVAL" and node.table:
        return _call("nextval", exp.Literal.string(node.table.lower()))
    if isinstance(node, exp.Anonymous | exp.JSONExists | exp.Is):
        return _special(node)
    return exp.to_identifier(str(node.this).lower()) if isinstance(node, exp.Identifier) else node


def _special(node: exp.Anonymous | exp.JSONExists | exp.Is) -> exp.Expr:
    if isinstance(node, exp.JSONExists):
        return _json_exists(node)
    if isinstance(node, exp.Is):
        if not isinstance(node.expression, exp.JSON):
            return node
        return exp.Is(this=exp.cast(_moved(node.this), "text"), expression=node.expression.copy())
    name = str(node.this).upper()
    if name == "VECTOR_DISTANCE":
        return _distance(node)
    return _json_textcontains(node) if name == "JSON_TEXTCONTAINS" else node


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[_moved(argument) for argument in arguments])


def _moved(argument: exp.Expr) -> exp.Expr:
    """What is below a node that was replaced is not looked at any more: it is converted here."""
    moved: exp.Expr = argument.copy().transform(_converted)
    return moved


def _null_if_any(node: exp.Expr) -> exp.Expr:
    """Oracle's GREATEST is NULL if one of its arguments is; PostgreSQL's leaves that one out."""
    arguments = [node.this, *node.expressions]
    tests = [exp.Is(this=_moved(argument), expression=exp.null()) for argument in arguments]
    name = "GREATEST" if isinstance(node, exp.Greatest) else "LEAST"
    return exp.Case(
        ifs=[exp.If(this=exp.or_(*tests), true=exp.null())],
        default=_call(name, *arguments),
    )


def _distance(node: exp.Anonymous) -> exp.Expr:
    if len(node.expressions) != 3 or node.expressions[2].name.upper() not in METRICS:
        raise ora(904, "VECTOR_DISTANCE takes two vectors and the name of a metric")
    one, other, metric = node.expressions
    vectors = [exp.cast(part.copy(), "vector") for part in (one, other)]
    return _call(f"oracle_{metric.name.lower()}", *vectors)


def _json_textcontains(node: exp.Anonymous) -> exp.Expr:
    if len(node.expressions) != 3 or not node.expressions[1].is_string:
        raise ora(40442, "JSON path expression syntax error: it is written, never bound")
    column, path, query = node.expressions
    return _call("json_textcontains", exp.cast(exp.cast(column.copy(), "text"), "jsonb"), path, query)


def _json_exists(node: exp.JSONExists) -> exp.Expr:
    """Of a column of type JSON, or of text."""
    path = node.args["path"]
    if not (isinstance(path, exp.Literal) and path.is_string):
        raise ora(40442, "JSON path expression syntax error: it is written, never bound")
    if node.args.get("on_condition") is not None:
        raise ora(900, "the double knows JSON_EXISTS without an error clause")
    passing = [_moved(passed) for passed in node.args.get("passing") or ()]
    if any(not passed.args["alias"].args.get("quoted") for passed in node.args.get("passing") or ()):
        raise ora(40442, "JSON path expression syntax error: names of passed values are quoted")
    column = exp.cast(exp.cast(_moved(node.this), "text"), "jsonb")
    return exp.JSONExists(this=column, path=path.copy(), passing=passing)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────


def table_ddl(parsed: Parsed) -> list[str]:
    """A CREATE TABLE as statements of PostgreSQL: the table, and what its columns are in Oracle."""
    tree = parsed.tree
    assert isinstance(tree, exp.Create)
    assert isinstance(tree.this, exp.Schema)
    name = tree.this.this.transform(_converted).sql("postgres")
    exists = "IF NOT EXISTS " if tree.args.get("exists") else ""
    vectors = [match[1] for match in VECTOR_TYPE.finditer(parsed.text)]
    parts: list[str] = []
    comments: list[str] = []
    for part in tree.this.expressions:
        if isinstance(part, exp.ColumnDef):
            column = part.name.lower()
            kind, size, target, test = _column_type(part, vectors)
            rules = " ".join(_constraint(rule) for rule in part.constraints)
            if "IDENTITY" in rules:
                if not rules.startswith("GENERATED"):
                    raise ora(907, "missing right parenthesis: the identity clause comes before constraints")
                target = "bigint"
            check = f" CHECK ({test.format(column=column)})" if test else ""
            parts.append(f"{column} {target} {rules}{check}")
            comments.append(f"COMMENT ON COLUMN {name}.{column} IS 'oracle {kind} {size}'")
        else:
            parts.append(part.transform(_converted).sql("postgres"))
    if tree.args.get("properties") is not None:
        raise ora(922, "missing or invalid option")
    return [f"CREATE TABLE {exists}{name} ({', '.join(parts)})", *comments]


def _constraint(rule: exp.Expr) -> str:
    text = str(rule.transform(_converted).sql("postgres"))
    return text.replace("ORDER", "").strip()


def _column_type(column: exp.ColumnDef, vectors: list[str]) -> tuple[str, int, str, str]:
    """Its type in Oracle, the bytes that it takes in a key, PostgreSQL's type, and a test of the value."""
    kind = column.args["kind"]
    assert isinstance(kind, exp.DataType)
    written = kind.sql("oracle").upper().split("(")[0].strip()
    numbers = [str(parameter.this) for parameter in kind.expressions]
    units = [str(parameter.args.get("expression") or "") for parameter in kind.expressions]
    if written in MAX_BYTES:
        if not numbers:
            raise ora(906, f"missing left parenthesis: {written} needs a length")
        return _sized(written, int(numbers[0]), units[0].upper())
    if written in ("NUMBER", "INTEGER", "INT"):
        return "NUMBER", SIZES["NUMBER"], f"numeric({','.join(numbers)})" if numbers else "numeric", ""
    if written in ("FLOAT", "BINARY_DOUBLE", "DOUBLE PRECISION"):
        return "FLOAT", SIZES["FLOAT"], "float8", ""
    if written == "BFILE":
        length = vectors.pop(0)
        return "VECTOR", -1, "vector" if length == "*" else f"vector({length})", ""
    if written in ("CLOB", "BLOB", "JSON"):
        return written, -1, {"JSON": "jsonb"}.get(written, written.lower()), ""
    raise ora(902, f"invalid datatype {written}")


def _sized(written: str, length: int, unit: str) -> tuple[str, int, str, str]:
    if length > MAX_BYTES[written] or (written == "NVARCHAR2" and length > 2000):
        raise ora(910, "specified length too long for its datatype")
    if written == "RAW":
        return "RAW", length, "bytea", f"octet_length({{column}}) <= {length}"
    if written == "NVARCHAR2":
        return written, 2 * length, "text", f"oracle_utf16({{column}}) <= {length}"
    if unit == "CHAR":
        test = f"char_length({{column}}) <= {length} AND octet_length({{column}}) <= 4000"
        return written, min(4 * length, 4000), "text", test
    return written, length, "text", f"octet_length({{column}}) <= {length}"


def index_ddl(parsed: Parsed) -> tuple[str, str, list[str]]:
    """A CREATE INDEX, its table, and its columns."""
    tree = parsed.tree
    assert isinstance(tree, exp.Create)
    index = tree.find(exp.Index)
    assert index is not None
    table = index.args["table"].transform(_converted).sql("postgres")
    columns: list[Any] = index.args["params"].args["columns"]
    name = index.this.name.lower()
    names = [str(column.transform(_converted).sql("postgres")).split(" ")[0] for column in columns]
    unique = "UNIQUE " if tree.args.get("unique") else ""
    exists = "IF NOT EXISTS " if tree.args.get("exists") else ""
    return f"CREATE {unique}INDEX {exists}{name} ON {table} ({', '.join(names)})", table, names
