"""What Oracle would refuse: each statement is parsed as Oracle SQL and looked at before it is run.

Stricter than a server where that keeps statements in what all versions share; never laxer, as far as we know.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Oracle
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from tests.oracle.failing import ora
from tests.oracle.merging import check_merge, merge_sources
from tests.oracle.words import (
    FOREIGN_TYPES,
    FOREIGN_WORDS,
    FUNCTIONS,
    MAX_IDENTIFIER_BYTES,
    MAX_IN_LIST,
    RESERVED,
)

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it can't read JSON paths, and need not

RELEASES = (19, 23)
VECTOR_TYPE = re.compile(
    r"\bVECTOR\s*\(\s*(\d+|\*)\s*,\s*(FLOAT32|FLOAT64|INT8|\*)\s*(?:,\s*DENSE\s*)?\)", re.I
)
_APPROX = re.compile(r"\bFETCH\s+APPROX(?:IMATE)?\s+FIRST\b", re.I)
_NEAREST = re.compile(r"ORDER\s+BY\s+VECTOR_DISTANCE\s*\([^()]*\)\s+FETCH\s+APPROX", re.I)
_ORGANIZED = re.compile(r"\)\s*ORGANIZATION\s+INDEX\s*$", re.I)
_COMMANDS = {
    "session": re.compile(r"ALTER\s+SESSION\s+SET\s+(?:\w+\s*=\s*(?:\w+|'[^']*')\s*)+", re.I),
    "lock": re.compile(
        r"LOCK\s+TABLE\s+(?P<table>[\w.]+)\s+IN\s+(?P<mode>[\w ]+?)\s+MODE(?P<now>\s+NOWAIT)?", re.I
    ),
    "vector index": re.compile(
        r"CREATE\s+VECTOR\s+INDEX\s+(?P<name>\w+)\s+ON\s+(?P<table>[\w.]+)\s*\(\s*(?P<column>\w+)\s*\)\s+"
        r"ORGANIZATION\s+(?:NEIGHBOR\s+PARTITIONS|INMEMORY\s+NEIGHBOR\s+GRAPH)\s+(?:WITH\s+)?DISTANCE\s+"
        r"(?P<metric>COSINE|DOT|EUCLIDEAN|EUCLIDEAN_SQUARED|MANHATTAN|HAMMING)(?:\s+WITH\s+TARGET\s+ACCURACY\s+\d+)?",
        re.I,
    ),
    "search index": re.compile(
        r"CREATE\s+SEARCH\s+INDEX\s+(?P<name>\w+)\s+ON\s+(?P<table>[\w.]+)\s*\(\s*(?P<column>\w+)\s*\)\s+FOR\s+JSON"
        r"(?:\s+PARAMETERS\s*\('[^']*'\))?",
        re.I,
    ),
}
_PREDICATES = (exp.Predicate, exp.Connector, exp.Not, exp.In, exp.Between, exp.Exists, exp.Like, exp.Is)
_SYMBOLS = {
    TokenType.DCOLON: "::",
    TokenType.MOD: "%",
    TokenType.ARROW: "->",
    TokenType.DARROW: "->>",
    TokenType.HASH_ARROW: "#>",
    TokenType.TILDE: "~",
    TokenType.DAMP: "&&",
    TokenType.SEMICOLON: ";",
    TokenType.L_BRACKET: "[",
}


@dataclass(frozen=True)
class Parsed:
    """A statement that Oracle would take. ``command``: one that the parser has no tree for, and its parts."""

    text: str
    tree: exp.Expr | None
    binds: frozenset[str]
    stored: frozenset[str]
    """Binds that are only stored as they are: they may be longer than an expression takes."""
    sources: frozenset[str]
    """Binds in the source or the condition of a MERGE: no LOB either."""
    command: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    indexed: bool = False
    approximate: bool = False

    @property
    def is_ddl(self) -> bool:
        ddl = (exp.Create, exp.Drop, exp.Alter, exp.TruncateTable, exp.Grant)
        return isinstance(self.tree, ddl) or self.command.endswith("index")

    @property
    def is_query(self) -> bool:
        return isinstance(self.tree, exp.Query)


@lru_cache(maxsize=4096)
def parse(sql: str, release: int) -> Parsed:
    """The statement, or the error that a server of that release would give."""
    for name, pattern in _COMMANDS.items():
        if found := pattern.fullmatch(sql.strip()):
            if release < 23 and name == "vector index":
                raise ora(901, "invalid CREATE command")
            names = [name for part in found.groupdict().values() for name in (part or "").split(".")]
            if any(len(name) > MAX_IDENTIFIER_BYTES for name in names):
                raise ora(972, "identifier is too long")
            parts = tuple((key, value or "") for key, value in found.groupdict().items())
            return Parsed(sql, None, frozenset(), frozenset(), frozenset(), name, parts)
    tokens = _tokens(sql)
    _check_tokens(tokens, release)
    if release < 23 and VECTOR_TYPE.search(sql):
        raise ora(902, "invalid datatype VECTOR")
    approximate = bool(_APPROX.search(sql))
    if approximate and (release < 23 or not _NEAREST.search(sql)):
        raise ora(
            933, "SQL command not properly ended: APPROX is for rows in the order of one VECTOR_DISTANCE"
        )
    plain = _APPROX.sub("FETCH FIRST", VECTOR_TYPE.sub(r"BFILE", _ORGANIZED.sub(")", sql)))
    try:
        (tree,) = sqlglot.parse(plain, read="oracle")
    except (SqlglotError, ValueError) as error:
        raise ora(900, f"invalid SQL statement: {error}") from None
    if tree is None or isinstance(tree, exp.Command | exp.Block):
        raise ora(900, "invalid SQL statement")
    for check in _CHECKS:
        check(tree, release)
    _check_table_aliases(tree, _tokens(plain))
    binds = frozenset(str(node.this) for node in tree.find_all(exp.Placeholder))
    if bad := sorted(name for name in binds if name.upper() in RESERVED or not name.isidentifier()):
        raise ora(1745, f"invalid host/bind variable name {bad}")
    organized = bool(_ORGANIZED.search(sql))
    return Parsed(
        sql, tree, binds, _stored(tree), merge_sources(tree), indexed=organized, approximate=approximate
    )


def _tokens(sql: str) -> list[Token]:
    try:
        return list(Oracle().tokenize(sql))
    except SqlglotError as error:
        raise ora(911, f"invalid character: {error}") from None


def _check_tokens(tokens: list[Token], release: int) -> None:
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        text = token.text.upper()
        if token.token_type in _SYMBOLS:
            raise ora(911, f"invalid character {_SYMBOLS[token.token_type]!r}")
        if token.token_type is TokenType.PLACEHOLDER and text == "?":
            raise ora(911, "invalid character '?': binds are named")
        if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
            continue
        if text in FOREIGN_TYPES and not (after is not None and after.token_type is TokenType.DOT):
            raise ora(902, f"invalid datatype {text}")
        joins = after is not None and after.text.upper() in ("JOIN", "OUTER")
        if text in FOREIGN_WORDS and not joins:
            raise ora(933, f"SQL command not properly ended: {text} is not Oracle's")
        if text == "EXCEPT" and release < 23:
            raise ora(933, "SQL command not properly ended: EXCEPT is MINUS")
        if text.startswith("PG_"):
            raise ora(904, f"{text}: invalid identifier")


def _check_names(tree: exp.Expr, release: int) -> None:
    for name in tree.find_all(exp.Identifier):
        text = str(name.this)
        if len(text.encode()) > MAX_IDENTIFIER_BYTES:
            raise ora(972, f"identifier is too long: {text}")
        if name.args.get("quoted"):
            if text != text.upper() and not isinstance(name.parent and name.parent.parent, exp.JSONExists):
                raise ora(904, f"{text}: the double knows no names in small letters")
        elif text.upper() in RESERVED and not _is_default(name):
            raise ora(1747, f"{text} is a reserved word")
        elif re.fullmatch(r"[A-Za-z][A-Za-z0-9_$#]*", text) is None:
            raise ora(911, f"invalid character in {text}: a name begins with a letter")
    for call in tree.find_all(exp.Anonymous):
        if str(call.this).upper() not in FUNCTIONS:
            raise ora(904, f"{call.this}: invalid identifier")
    for dotted in tree.find_all(exp.Dot):
        if dotted.sql("oracle").split("(")[0].upper() not in ("DBMS_LOB.GETLENGTH", "DBMS_LOB.SUBSTR"):
            raise ora(904, f"{dotted.sql('oracle')}: invalid identifier")


def _is_default(name: exp.Identifier) -> bool:
    """UPDATE ... SET column = DEFAULT."""
    value = name.parent
    assigned = value.parent if isinstance(value, exp.Column) else None
    return (
        name.name.upper() == "DEFAULT"
        and isinstance(assigned, exp.EQ)
        and isinstance(assigned.parent, exp.Update)
    )


def _check_clauses(tree: exp.Expr, release: int) -> None:
    if next(tree.find_all(exp.Limit), None) is not None:
        raise ora(933, "SQL command not properly ended: LIMIT")
    if next(tree.find_all(exp.OnConflict), None) is not None:
        raise ora(933, "SQL command not properly ended: ON CONFLICT")
    if next(tree.find_all(exp.Boolean), None) is not None:
        raise ora(904, "TRUE and FALSE: invalid identifier before 23ai")
    for returning in tree.find_all(exp.Returning):
        if not returning.args.get("into"):
            raise ora(925, "missing INTO keyword after RETURNING")
    for listed in tree.find_all(exp.In):
        values = listed.expressions
        if listed.args.get("query") is None and listed.args.get("unnest") is None and not values:
            raise ora(936, "missing expression: an empty IN list")
        if len(values) > MAX_IN_LIST and not isinstance(listed.this, exp.Tuple):
            raise ora(1795, f"maximum number of expressions in a list is {MAX_IN_LIST}")
    for when in tree.find_all(exp.When):
        then = when.args.get("then")
        if when.args.get("condition") or (isinstance(then, exp.Update) and then.args.get("where")):
            raise ora(900, "a condition in WHEN would be lost on the way to PostgreSQL: never use it")
    if isinstance(tree, exp.Create | exp.Drop) and tree.args.get("exists") and release < 23:
        raise ora(922, "missing or invalid option: IF [NOT] EXISTS")
    if isinstance(tree, exp.Create):
        for index in tree.find_all(exp.Index):
            parameters = index.args.get("params")
            if parameters is not None and parameters.args.get("where") is not None:
                raise ora(933, "SQL command not properly ended: an index has no WHERE")


def _check_rows(tree: exp.Expr, release: int) -> None:
    """Rows of values can be looked up in a list, not compared."""
    for comparison in tree.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ):
        if isinstance(comparison.this, exp.Tuple) or isinstance(comparison.expression, exp.Tuple):
            raise ora(920, "invalid relational operator between rows")


def _check_selects(tree: exp.Expr, release: int) -> None:
    for select in tree.find_all(exp.Select):
        if release < 23 and select.args.get("from_") is None:
            raise ora(923, "FROM keyword not found where expected")
        for projected in select.expressions:
            value = projected.unalias()
            if isinstance(value, exp.Paren):
                value = value.unnest()
            if isinstance(value, _PREDICATES):
                raise ora(923, "FROM keyword not found where expected: a condition is no value")
        if select.args.get("locks"):
            _check_lock(select)
    for lock_holder in tree.find_all(exp.SetOperation):
        if lock_holder.args.get("locks"):
            raise ora(2014, "cannot select FOR UPDATE from view with DISTINCT, GROUP BY, etc.")


def _check_lock(select: exp.Select) -> None:
    own = [node for node in select.find_all(exp.AggFunc) if node.find_ancestor(exp.Select) is select]
    if own or any(select.args.get(part) for part in ("distinct", "group", "limit", "having")):
        raise ora(2014, "cannot select FOR UPDATE from view with DISTINCT, GROUP BY, etc.")


def _check_changes(tree: exp.Expr, release: int) -> None:
    if isinstance(tree, exp.Delete) and (tree.args.get("using") or tree.args.get("tables")):
        raise ora(933, "SQL command not properly ended: DELETE ... USING")
    if isinstance(tree, exp.Update) and tree.args.get("from_"):
        raise ora(933, "SQL command not properly ended: UPDATE ... FROM")


def _check_release(tree: exp.Expr, release: int) -> None:
    for values in tree.find_all(exp.Values):
        if len(values.expressions) > 1 or not isinstance(tree, exp.Insert):
            raise ora(933, "SQL command not properly ended: one row of VALUES before 23ai")
    for kind in tree.find_all(exp.DataType):
        if kind.this is exp.DataType.Type.JSON and release < 21:
            raise ora(902, "invalid datatype JSON")
    newer = {"VECTOR_DISTANCE", "TO_VECTOR"}
    if release < 23 and any(str(call.this).upper() in newer for call in tree.find_all(exp.Anonymous)):
        raise ora(904, "VECTOR_DISTANCE: invalid identifier")


def _check_table_aliases(tree: exp.Expr, tokens: list[Token]) -> None:
    starts = {token.start: number for number, token in enumerate(tokens)}
    for alias in tree.find_all(exp.TableAlias):
        if isinstance(alias.parent, exp.CTE) or alias.this is None:
            continue
        place = starts.get(alias.this.meta.get("start", -1))
        if place and tokens[place - 1].token_type is TokenType.ALIAS:
            raise ora(933, f"SQL command not properly ended: AS before the alias {alias.this.name}")


_CHECKS = (
    _check_names,
    _check_clauses,
    _check_rows,
    _check_selects,
    _check_changes,
    check_merge,
    _check_release,
)


def _stored(tree: exp.Expr) -> frozenset[str]:
    """Of a MERGE none: a long text is only taken there as a LOB."""
    return frozenset() if isinstance(tree, exp.Merge) else frozenset(_stored_binds(tree))


def _stored_binds(tree: exp.Expr) -> Iterator[str]:
    """Binds whose every place is a value of INSERT ... VALUES or the right side of UPDATE ... SET."""
    direct: dict[str, bool] = {}
    for node in tree.find_all(exp.Placeholder):
        parent = node.parent
        row = isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values)
        assigned = (
            isinstance(parent, exp.EQ) and isinstance(parent.parent, exp.Update) and parent.expression is node
        )
        name = str(node.this)
        direct[name] = direct.get(name, True) and (row or assigned)
    return (name for name, stored in direct.items() if stored)
