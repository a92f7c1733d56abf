"""What Holdfast costs, against floors that are measured in the same run: ``python -m benchmarks``."""
