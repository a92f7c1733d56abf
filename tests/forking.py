"""Processes of tests, forked from one that has imported what they need and has opened nothing."""

import multiprocessing
from multiprocessing.context import ForkServerContext

# It is started by the first test that needs one, and serves all others of the run.
_IMPORTED = [
    *("pytest", "tests.reliability.opening", "tests.servers.fixtures", "tests.memory.facts.writers"),
    "tests.oracle.crossing",
]


def context() -> ForkServerContext:
    """For processes that begin with nothing of this one's, in milliseconds instead of a second each."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_IMPORTED)
    return found
