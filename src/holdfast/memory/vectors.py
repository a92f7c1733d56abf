"""Exact vector search: the metrics, on a matrix of float32 rows. numpy is imported when it is first needed.

A higher score is nearer on every metric:

=========  ==============================================  ==================
metric     distance                                        score
=========  ==============================================  ==================
COSINE     1 - cosine of the angle                         the cosine, -1 to 1
DOT        minus the dot product                           the dot product
EUCLIDEAN  length of the difference                        1 / (1 + distance)
MANHATTAN  sum of the absolute differences                 1 / (1 + distance)
HAMMING    number of components that differ                1 / (1 + distance)
=========  ==============================================  ==================
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from holdfast.core.errors import InvalidInput, MissingExtra, VectorMismatch
from holdfast.memory import validate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Indices = NDArray[np.intp]
    Embedding = Sequence[float] | NDArray[Any]
else:
    Embedding = Sequence

MAX_DIMENSION = 65_536
MAX_COMPONENT = 1e15
"""Sums of that many squares of it stay within float32."""
_CHUNK_FLOATS = 1 << 18  # 1 MB of differences at a time stays in the processor's cache


class Metric(StrEnum):
    """How far apart two vectors are."""

    COSINE = "COSINE"
    DOT = "DOT"
    EUCLIDEAN = "EUCLIDEAN"
    MANHATTAN = "MANHATTAN"
    HAMMING = "HAMMING"


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Which vectors can be compared with each other. ``embedder`` is compared where both sides name one."""

    dimension: int
    metric: Metric
    embedder: str | None = None

    def fits(self, recorded: "VectorSpace | None") -> bool:
        """Whether vectors of this space can join those. An embedder without a name is taken at its word."""
        if recorded is None:
            return True
        named = self.embedder is not None and recorded.embedder is not None
        same = (self.dimension, self.metric) == (recorded.dimension, recorded.metric)
        return same and (not named or self.embedder == recorded.embedder)

    def check(self, recorded: "VectorSpace | None", namespace: tuple[str, ...]) -> None:
        """`VectorMismatch` if the namespace holds vectors of another space."""
        if recorded is None or self.fits(recorded):
            return
        raise VectorMismatch(
            f"namespace {namespace!r} holds vectors of {recorded}; asked for was {self}: open it with what is stored,"
            " use another namespace, or, for the memory of an agent, embed anew what is stored: holdfast reembed",
            namespace=namespace,
            stored=str(recorded),
            asked=str(self),
        )

    def __str__(self) -> str:
        name = "an embedder without a name" if self.embedder is None else f"embedder {self.embedder!r}"
        return f"{name} (dimension {self.dimension}, metric {self.metric.value})"


def parse_metric(value: object, field: str = "distance_metric") -> Metric:
    """A metric by its name, in any case."""
    if isinstance(value, str) and value.upper() in Metric.__members__:
        return Metric[value.upper()]
    raise InvalidInput(f"{field} must be one of {', '.join(Metric.__members__)}, got {value!r}")


def parse_space(dimension: object, metric: object, embedder: object) -> VectorSpace | None:
    """The space that a store's arguments name; ``None`` without a dimension."""
    parsed, name = parse_metric(metric), validate.optional_identifier(embedder, "embedder")
    if dimension is None:
        return None
    if isinstance(dimension, bool) or not isinstance(dimension, int) or not 0 < dimension <= MAX_DIMENSION:
        raise InvalidInput(
            f"dimension must be a whole number from 1 to {MAX_DIMENSION}, got {dimension!r} "
            f"({type(dimension).__name__})"
        )
    return VectorSpace(dimension, parsed, name)


def check_vector(embedding: object, space: VectorSpace, field: str = "embedding") -> bytes:
    """The vector as float32, little endian. Wrong length, not finite, without direction: `InvalidInput`."""
    np = _numpy()
    vector = _as_floats(np, embedding, field)
    if len(vector) != space.dimension:
        raise InvalidInput(
            f"{field} must have {space.dimension} components (the store's dimension=), got {len(vector)}"
        )
    if not np.abs(vector).max() <= MAX_COMPONENT:  # also false for NaN
        raise InvalidInput(
            f"{field} must have finite components between -{MAX_COMPONENT:g} and {MAX_COMPONENT:g}"
        )
    if space.metric is Metric.COSINE and not vector.any():
        raise InvalidInput(f"{field} is all zeros, which has no direction: COSINE can't compare it")
    return bytes(vector.astype("<f4", copy=False).tobytes())


def unpack(vectors: Sequence[bytes] | bytes, dimension: int) -> "Floats":
    """A matrix with a row for each vector of :func:`check_vector`: a list of them, or joined bytes."""
    np = _numpy()
    data = vectors if isinstance(vectors, bytes) else b"".join(vectors)
    rows: Floats = np.frombuffer(data, dtype="<f4").reshape(-1, dimension).astype(np.float32, copy=False)
    return rows


def prepare(metric: Metric, matrix: "Floats") -> "Floats":
    """The matrix in the form that :func:`score_all` takes: rows of length 1 for COSINE, else as it is."""
    if metric is not Metric.COSINE or not len(matrix):
        return matrix
    np = _numpy()
    wide = matrix.astype(np.float64)  # squares of large or tiny float32 leave its range
    wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    unit: Floats = wide.astype(np.float32)
    return unit


def score_all(metric: Metric, matrix: "Floats", query: bytes) -> "tuple[Floats, Floats]":
    """Scores and distances of every row of a :func:`prepare`-d matrix from a checked vector."""
    np = _numpy()
    row = unpack(query, matrix.shape[1])
    if metric is Metric.COSINE:
        # Rounding may leave [-1, 1] by an ulp, and a vector is no nearer to itself than 1.
        cosine: Floats = np.clip(matrix @ prepare(metric, row)[0], np.float32(-1), np.float32(1))
        return cosine, 1 - cosine
    if metric is Metric.DOT:
        dot: Floats = matrix @ row[0]
        return dot, -dot
    distances = np.empty(len(matrix), dtype=np.float32)
    step = max(1, _CHUNK_FLOATS // matrix.shape[1])
    for start in range(0, len(matrix), step):
        part = matrix[start : start + step]
        distances[start : start + step] = _distances(np, metric, part, row[0])
    return 1 / (1 + distances), distances


def top(scores: "Floats", k: int, order: "NDArray[np.int64] | None" = None) -> "Indices":
    """Indices of the ``k`` highest scores, best first; equal ones by ``order``, lowest first (else index)."""
    np = _numpy()
    count = len(scores)
    places = np.arange(count)
    if k < count:
        bound = np.partition(scores, count - k)[count - k] if k else np.inf
        places = np.flatnonzero(scores >= bound)  # k, and all that tie with the last of them
    ties = places if order is None else order[places]
    best = places[np.lexsort((ties, -scores[places]))][:k]
    return cast("Indices", best)


def _distances(np: ModuleType, metric: Metric, part: "Floats", row: "Floats") -> Any:
    if metric is Metric.HAMMING:
        return np.count_nonzero(part != row, axis=1)
    difference = part - row
    if metric is Metric.MANHATTAN:
        return np.abs(difference, out=difference).sum(axis=1)
    return np.sqrt(np.einsum("ij,ij->i", difference, difference))


def _as_floats(np: ModuleType, embedding: object, field: str) -> Any:
    if isinstance(embedding, np.ndarray):
        if embedding.ndim != 1 or embedding.dtype.kind not in "fiu":
            raise InvalidInput(
                f"{field} must be one row of numbers, got an array of {embedding.dtype} with shape "
                f"{embedding.shape}"
            )
    elif isinstance(embedding, str | bytes) or not isinstance(embedding, Sequence):
        raise InvalidInput(
            f"{field} must be a list of numbers or a numpy array, got {type(embedding).__name__}"
        )
    elif not set(map(type, embedding)) <= {int, float}:
        for index, item in enumerate(embedding):
            if isinstance(item, bool) or not isinstance(item, int | float | np.floating | np.integer):
                raise InvalidInput(f"{field}[{index}] must be a number, got {type(item).__name__}")
    try:
        with np.errstate(over="ignore"):  # becomes an infinity, which is refused
            return np.asarray(embedding, dtype=np.float32)
    except OverflowError:
        raise InvalidInput(f"{field} has a number that is too large for float32") from None


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError:
        raise MissingExtra("vector search", "vectors") from None
    return numpy
