"""What other processes do to a Chroma directory. Each job reports on a pipe."""

import asyncio
import multiprocessing as mp
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import chromadb  # noqa: F401 (so that the server of processes has it, and its children need not load it)

from holdfast.errors import Conflict, Unavailable
from holdfast.memory.store_backends import ChromaStore

NS = ("shared", "items")


def start(job: str, path: str, *arguments: Any) -> tuple[BaseProcess, Connection]:
    """A process of its own, forked from a server that has opened nothing."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    mine, theirs = context.Pipe()
    process = context.Process(target=_run, args=(job, path, theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return process, mine


def _run(job: str, path: str, pipe: Connection, *arguments: Any) -> None:
    asyncio.run(globals()[job](path, pipe, *arguments))


async def put_for_ever(path: str, pipe: Connection, first: int) -> None:
    """Puts one by one, and batches of 40, each acknowledged when it is stored."""
    async with ChromaStore(path, dimension=2) as store:
        number = first
        while True:
            await store.put_with_embedding(NS, f"one {number}", {"text": f"word{number}"}, [1.0, number])
            pipe.send(f"one {number}")
            await store.put_batch(((*NS, str(number)), f"{n}", {"text": "many"}) for n in range(40))
            pipe.send(f"batch {number}")
            number += 1


async def count(path: str, pipe: Connection, times: int) -> None:
    """Adds one to a number so often, by compare-and-set; reports the versions that it wrote."""
    versions: list[int] = []
    async with ChromaStore(path) as store:
        while len(versions) < times:
            item = await store.get_item(NS, "count")
            value, expected = (0, 0) if item is None else (item.value, item.version)
            try:
                versions.append(await store.put(NS, "count", value + 1, expected_version=expected))
            except Conflict:
                continue
    pipe.send(versions)


async def obey(path: str, pipe: Connection) -> None:
    """Does what it is told, in words of the store: a method's name and its arguments."""
    async with ChromaStore(path, dimension=2) as store:
        while (order := pipe.recv()) is not None:
            method, arguments, options = order
            answer = await getattr(store, method)(*arguments, **options)
            pipe.send(list(answer) if isinstance(answer, list) else answer)
    pipe.send("done")


async def use_and_fork(path: str, pipe: Connection) -> None:
    """Writes, forks, and says what the child was told when it used Chroma."""
    store = ChromaStore(path)
    await store.put(NS, "parent", 1)
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(tells, _tried(store, path).encode())
        os._exit(0)
    os.close(tells)
    os.waitpid(pid, 0)
    with os.fdopen(told) as answer:
        pipe.send((answer.read(), await store.put(NS, "after", 2)))
    await store.close()


def _tried(store: ChromaStore, path: str) -> str:
    async def attempt(used: ChromaStore) -> str:
        try:
            await used.get(NS, "parent")
        except Unavailable as error:
            return str(error)
        return "no error"

    loop = asyncio.SelectorEventLoop()
    asyncio.events._set_running_loop(None)  # the parent's, which the fork took along
    return "; ".join(loop.run_until_complete(attempt(used)) for used in (store, ChromaStore(path)))
