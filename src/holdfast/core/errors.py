"""Every error that Holdfast raises on purpose.

::

    HoldfastError
    ├── InvalidInput (ValueError)          the call was wrong; nothing was read or written
    │   └── VectorMismatch                 what is stored was embedded by something else; nothing was written
    ├── Conflict                           somebody else was first; nothing was written
    ├── Unsupported (NotImplementedError)  this backend does not declare that capability
    ├── Unavailable                        the storage can't be reached or can't answer now
    │   ├── Closed                         used after close()
    │   ├── StorageFull                    no space left; what was stored stays readable
    │   └── ModelUnavailable (ModelError)  the model's service can't be reached, is overloaded, or broke off
    ├── ModelError                         the model's service refused the request, or its answer is unusable
    ├── Corrupt                            stored data is damaged; names the place
    ├── SchemaMismatch                     the stored format is not one that this version reads
    └── MissingExtra (ImportError)         an optional package is not installed

"Missing" is never an error: it is ``None``, ``False`` or an empty list. "Unreachable" always is one.
"""


class HoldfastError(Exception):
    """Base of all errors that Holdfast raises on purpose."""


class InvalidInput(HoldfastError, ValueError):
    """An argument is wrong. Raised before any I/O."""


class VectorMismatch(InvalidInput):
    """The vectors that are stored are not comparable with these: another embedder, dimension or metric. Nothing was
    written.

    ``namespace`` is where, ``stored`` and ``asked`` are the two as text.
    """

    def __init__(
        self, message: str, *, namespace: tuple[str, ...] = (), stored: str = "", asked: str = ""
    ) -> None:
        super().__init__(message)
        self.namespace = namespace
        self.stored = stored
        self.asked = asked


class Conflict(HoldfastError):
    """A compare-and-set lost. Nothing was written.

    ``expected`` is what the caller thought was current, ``actual`` what is: checkpoint ids for a
    checkpointer, versions for a store, ``None`` for "does not exist".
    """

    def __init__(self, message: str, *, expected: object = None, actual: object = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class Unsupported(HoldfastError, NotImplementedError):
    """The backend does not declare the capability that this call needs."""


class Unavailable(HoldfastError):
    """The storage can't be reached, or can't answer now. The operation may be tried again."""


class Closed(Unavailable):
    """The object was used after ``close()``."""


class StorageFull(Unavailable):
    """The storage has no space left. Nothing was written; stored data stays readable."""


class ModelError(HoldfastError):
    """A model's service refused the request, or gave an answer that can't be used. Repeating it won't help.

    ``provider`` is the service (``"openai"``), ``status`` its HTTP status where there was one.
    """

    def __init__(self, message: str, *, provider: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class ModelUnavailable(ModelError, Unavailable):
    """A model's service can't be reached, is overloaded, timed out, or broke off its answer.

    Raised after the provider's own retries; the call may be tried again later.
    """


class Corrupt(HoldfastError):
    """Stored data is damaged. ``place`` says where."""

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(message)
        self.place = place


class SchemaMismatch(HoldfastError):
    """Stored data has a format that this version of Holdfast doesn't read, or tables are missing.

    ``ddl`` has the statements that would mend it, where some would.
    """

    def __init__(self, message: str, *, ddl: str = "") -> None:
        super().__init__(message)
        self.ddl = ddl

    def __str__(self) -> str:
        return f"{self.args[0]}; their owner must run:\n{self.ddl}" if self.ddl else str(self.args[0])


class MissingExtra(HoldfastError, ImportError):
    """An optional dependency is missing. The message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}': pip install 'holdfast[{extra}]'")
        self.extra = extra
