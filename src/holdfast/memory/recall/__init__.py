"""Recall: which memories answer a question, from any store, and why."""

from holdfast.memory.recall.dates import time_words
from holdfast.memory.recall.records import Recalled, Weights
from holdfast.memory.recall.retrieve import recall_items

__all__ = ["Recalled", "Weights", "recall_items", "time_words"]
