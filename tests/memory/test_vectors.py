"""Vectors: what is accepted, what each metric computes, and who wins a tie."""

import builtins
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.memory.vectors import (
    Metric,
    VectorSpace,
    check_vector,
    parse_metric,
    parse_space,
    prepare,
    score_all,
    top,
    unpack,
)
from holdfast.testing.store_cases.nearness import oracle

PLANE = VectorSpace(2, Metric.COSINE)


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize(("rows", "dimension"), [(1, 1), (7, 3), (50, 384), (3000, 100)])
def test_scores_are_those_of_the_definition(metric: Metric, rows: int, dimension: int) -> None:
    source = np.random.default_rng(rows * dimension)
    matrix = source.integers(-3, 4, (rows, dimension)).astype(np.float32) + np.float32(0.5)
    query = source.integers(-3, 4, dimension).astype(np.float32) + np.float32(0.5)
    packed = check_vector(query, VectorSpace(dimension, metric))
    scores, distances = score_all(metric, prepare(metric, matrix), packed)
    assert scores.dtype.name == distances.dtype.name == "float32"
    assert scores.shape == distances.shape == (rows,)
    for index in random.Random(1).sample(range(rows), min(rows, 20)):
        score, distance = oracle(metric.value, matrix[index].tolist(), query.tolist())
        assert scores[index] == pytest.approx(score, rel=1e-5, abs=1e-5)
        assert distances[index] == pytest.approx(distance, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("metric", list(Metric))
def test_an_empty_matrix_has_no_scores(metric: Metric) -> None:
    scores, distances = score_all(
        metric, prepare(metric, unpack([], 3)), check_vector([1, 2, 3], VectorSpace(3, metric))
    )
    assert len(scores) == len(distances) == 0
    assert list(top(scores, 5)) == []


@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1.0, 1e5, 1e14])
def test_the_cosine_does_not_depend_on_the_length(scale: float) -> None:
    matrix = prepare(Metric.COSINE, unpack([check_vector([3 * scale, 4 * scale], PLANE)], 2))
    scores, _ = score_all(Metric.COSINE, matrix, check_vector([3, 4], PLANE))
    assert scores[0] == pytest.approx(1.0, abs=1e-6)
    assert scores[0] <= 1.0


def test_vectors_are_little_endian_float32() -> None:
    packed = check_vector([1.0, -2.5], PLANE)
    assert packed == np.array([1.0, -2.5], dtype="<f4").tobytes()
    assert unpack([packed, packed], 2).tolist() == [[1.0, -2.5], [1.0, -2.5]]
    assert unpack(packed + packed, 2).tolist() == [[1.0, -2.5], [1.0, -2.5]]
    assert check_vector(np.array([1.0, -2.5], dtype=">f8"), PLANE) == packed
    assert check_vector([np.float32(1.0), np.float64(-2.5)], PLANE) == packed
    assert check_vector((1, 2), PLANE) == check_vector(np.array([1, 2]), PLANE)


BAD: list[tuple[Any, str]] = [
    ([1.0], "must have 2 components"),
    ([1.0, 2.0, 3.0], "got 3"),
    ([], "got 0"),
    ([math.nan, 1.0], "finite"),
    ([math.inf, 1.0], "finite"),
    ([1e39, 1.0], "finite"),
    ([1e16, 1.0], "between"),
    ([10**400, 1], "too large"),
    ([0.0, 0.0], "no direction"),
    ([0.0, 1e-60], "no direction"),
    ("ab", "list of numbers"),
    (b"ab", "list of numbers"),
    (None, "list of numbers"),
    ({1.0, 2.0}, "list of numbers"),
    (["1", "2"], r"\[0\] must be a number"),
    ([1.0, True], r"\[1\] must be a number"),
    ([[1.0], [2.0]], r"\[0\] must be a number"),
    (np.ones((2, 1)), "shape"),
    (np.array(["1", "2"]), "one row of numbers"),
    (np.array([True, False]), "one row of numbers"),
    (np.array([1j, 2j]), "one row of numbers"),
]


@pytest.mark.parametrize(("bad", "says"), BAD, ids=[ascii(bad)[:30] for bad, _ in BAD])
def test_wrong_vectors_are_refused(bad: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        check_vector(bad, PLANE, "query_embedding")


def test_only_cosine_needs_a_direction() -> None:
    for metric in Metric:
        if metric is not Metric.COSINE:
            assert check_vector([0, 0], VectorSpace(2, metric)) == bytes(8)


@given(st.lists(st.integers(-3, 3), max_size=40), st.integers(0, 45))
def test_top_is_a_stable_sort(values: list[int], k: int) -> None:
    scores = np.array(values, dtype=np.float32)
    expected = sorted(range(len(values)), key=lambda index: -values[index])[:k]
    assert list(top(scores, k)) == expected
    backwards = np.arange(len(values))[::-1].astype(np.int64)
    expected = sorted(range(len(values)), key=lambda index: (-values[index], -index))[:k]
    assert list(top(scores, k, backwards)) == expected


def test_metrics_are_known_by_name() -> None:
    assert parse_metric("cosine") is Metric.COSINE
    assert parse_metric(Metric.DOT) is Metric.DOT
    for bad in ("", "L2", None, 1):
        with pytest.raises(InvalidInput, match="COSINE, DOT, EUCLIDEAN, MANHATTAN, HAMMING"):
            parse_metric(bad)


def test_a_space_is_checked() -> None:
    assert parse_space(None, "COSINE", None) is None
    assert parse_space(3, "dot", "mini") == VectorSpace(3, Metric.DOT, "mini")
    for bad in (0, -1, True, 1.5, "3", 10**6):
        with pytest.raises(InvalidInput, match="dimension"):
            parse_space(bad, "COSINE", None)


def test_spaces_must_agree() -> None:
    space = VectorSpace(2, Metric.COSINE, "mini")
    for fine in (None, space, VectorSpace(2, Metric.COSINE), VectorSpace(2, Metric.COSINE, "mini")):
        space.check(fine, ("a",))
    for other, field in (
        (VectorSpace(3, Metric.COSINE, "mini"), "dimension"),
        (VectorSpace(2, Metric.DOT, "mini"), "metric"),
        (VectorSpace(2, Metric.COSINE, "maxi"), "embedder"),
    ):
        with pytest.raises(InvalidInput, match=field):
            space.check(other, ("a",))


def test_without_numpy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"holdfast\[vectors\]"):
        check_vector([1.0, 2.0], PLANE)
