"""Exit codes, and what each error means for one who called the command."""

from holdfast.core.errors import Conflict, HoldfastError, InvalidInput, SchemaMismatch, Unsupported

OK = 0
NOTHING = 1
USAGE = 2
CONFLICT = 3
UNAVAILABLE = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_CODES = """\b
Exit codes:
  0  done
  1  nothing found: no such database, thread or checkpoint, no match
  2  wrong usage or invalid input
  3  conflict: it exists already, somebody else was first, a copy differs, or not all could be forgotten
  4  the database is unavailable, damaged, or of another version; a piped chat lost an answer
  130, 141  interrupted; nobody reads the output any more
"""


class Failure(HoldfastError):
    """Ends the command with a message and a code."""

    def __init__(self, message: str, code: int = NOTHING) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: Exception) -> int:
    if isinstance(error, Failure):
        return error.code
    if isinstance(error, FileNotFoundError):
        return NOTHING
    if isinstance(error, InvalidInput | Unsupported):
        return USAGE
    return CONFLICT if isinstance(error, Conflict) else UNAVAILABLE


def message_of(error: Exception) -> str:
    if isinstance(error, SchemaMismatch):
        return str(error.args[0])  # without the DDL, which is for the owner of a server's tables
    if isinstance(error, HoldfastError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error} (HOLDFAST_DEBUG=1 shows where)"
