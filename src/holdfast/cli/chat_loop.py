"""The chat itself: a line is read, taken to the agent, and what happens is shown, until there are no more lines."""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from holdfast.agent import Agent, AgentResult, Run
from holdfast.agent.events import ToolCompleteEvent, ToolStartEvent
from holdfast.agent.progress import unfinished
from holdfast.cli import text
from holdfast.cli.chat_commands import obey
from holdfast.cli.chat_input import Interrupts, Lines
from holdfast.cli.chat_view import View, call_text
from holdfast.cli.database import Session
from holdfast.cli.failures import OK, UNAVAILABLE, message_of
from holdfast.core.messages import Role, ToolCall
from holdfast.core.state import AgentState

__all__ = ["Chat"]

T = TypeVar("T")

HOW_TO_GO_ON = "the turn is unfinished, at a safe point: Enter goes on with it, /rewind takes it back"


class Chat:
    """One person, one agent, one thread at a time."""

    def __init__(self, agent: Agent, session: Session, thread_id: str) -> None:
        self.agent = agent
        self.session = session
        self.thread_id = thread_id
        self.user_id = session.checkpointer.scope
        self.view = View(session.out)
        self._interrupts = Interrupts()
        self._lines = Lines(self._interrupts)
        self._has_lost = False

    async def run(self, model_name: str) -> int:
        """Until the end of the input, or ``/quit``. The exit code."""
        if self._lines.is_interactive:
            place = f"{text.escape(model_name)} · {text.escape(self.session.url)}"
            self.session.out.paragraph([("holdfast chat", "bold"), (f"  {place}", "dim")])
            self.view.note("/help lists the commands, Ctrl-C leaves an answer, Ctrl-D ends the chat")
        with self._interrupts.installed():
            await self.enter(self.thread_id)
            self.view.gap()
            while (line := self._next_line()) is not None:
                if not await self._take(line):
                    break
        return UNAVAILABLE if self._has_lost and not self._lines.is_interactive else OK

    # ── what a line asks for ──────────────────────────────────────────────────────────────────────

    def _next_line(self) -> str | None:
        while True:
            prompt = f"{text.escape(self.thread_id)}> "
            try:
                line = self._lines.read(prompt)
            except KeyboardInterrupt:
                if not self._lines.is_interactive:
                    raise
                self.session.out.line()
                self.view.note("Ctrl-D or /quit ends the chat")
                continue
            if line is not None and self.session.out.in_terminal and not self._lines.is_interactive:
                self.session.out.paragraph([(prompt, "dim"), (text.escape_lines(line), "")])
            return line

    async def _take(self, line: str) -> bool:
        """``False``: that was the last one."""
        asked = line.strip()
        self.view.gap()
        try:
            if asked.startswith("/") and not asked.startswith("//"):
                if await self._guarded(obey(self, asked)) is False:
                    return False
            elif asked:
                await self.say(asked.removeprefix("/") if asked.startswith("//") else line)
            elif await self.is_unfinished():
                await self.resume()
        except Exception as error:
            self._show(error)
        self.view.gap()
        return True

    async def say(self, prompt: str) -> None:
        """One turn."""
        await self._turn(self.agent.run(prompt, thread_id=self.thread_id, user_id=self.user_id))

    async def resume(self) -> None:
        """Go on with the unfinished turn."""
        await self._turn(self.agent.resume(self.thread_id, user_id=self.user_id))

    async def enter(self, thread_id: str) -> None:
        """Go to a thread, show where it stands, and finish what is unfinished there."""
        state = await self.agent.get_state(thread_id, user_id=self.user_id)
        self.thread_id = thread_id
        if state is None:
            self.view.note(f"thread {thread_id}: nothing was said yet")
        else:
            self.view.note(f"thread {thread_id}: {text.number(len(state.messages), 'message')}")
            if self._lines.is_interactive:
                self.show_end(state)
            if unfinished(state):
                self.view.gap()
                await self.resume()

    def show_end(self, state: AgentState) -> None:
        """The last question and what was answered."""
        asked = [at for at, message in enumerate(state.messages) if message.role is Role.USER]
        for message in state.messages[asked[-1] if asked else 0 :]:
            self.view.message(message)

    async def state(self) -> AgentState | None:
        return await self.agent.get_state(self.thread_id, user_id=self.user_id)

    async def is_unfinished(self) -> bool:
        state = await self.state()
        return state is not None and unfinished(state)

    # ── a turn ────────────────────────────────────────────────────────────────────────────────────

    async def _turn(self, run: Run | None) -> None:
        """The turn, and whatever approvals it needs. An error leaves it unfinished, and the chat goes on."""
        ended = False
        self.view.begin()
        try:
            while run is not None:
                result = await self._play(run)
                ended = result is not None and result.stop_reason != "approval"
                run = None if result is None or ended else self._approved(result.approvals)
                self.view.begin(is_continued=True)
        except Exception as error:
            self._has_lost = True
            self._show(error)
        if not ended and await self.is_unfinished():
            self.view.note(HOW_TO_GO_ON)

    async def _play(self, run: Run) -> AgentResult | None:
        """Show a run to its end. ``None`` if the user left it."""
        running: set[str] = set()
        leaving = False

        async def watch() -> None:
            async with aclosing(aiter(run)) as events:
                async for event in events:
                    self.view.event(event)
                    if isinstance(event, ToolStartEvent):
                        running.add(event.call.id)
                    elif isinstance(event, ToolCompleteEvent):
                        running.discard(event.call.id)
                    if leaving:
                        return

        def leave() -> None:
            """What a tool has begun it may end, unless the user insists; a model can be left at any time."""
            nonlocal leaving
            if self._lines.is_interactive and not self.view.flow.is_open:
                self.session.out.line()  # the terminal has written ^C
            if running and not leaving:
                leaving = True
                self.view.note("waiting for the running tool to end; Ctrl-C again does not wait")
            else:
                task.cancel()

        task = asyncio.create_task(watch())
        await self._watched(task, leave)
        return run.result

    def _approved(self, waiting: Sequence[ToolCall]) -> Run | None:
        """Ask about each call, and go on with the verdicts. ``None`` if nobody answers."""
        verdicts: dict[str, bool | str] = {}
        for call in waiting:
            question = f"  allow {call_text(call)}? [y/N, or why not] "
            try:
                if not self._lines.is_interactive:
                    self.view.note(question.strip())
                answer = self._lines.read(question)
            except KeyboardInterrupt:
                answer = None
            if answer is None:
                return None
            verdicts[call.id] = _verdict(answer.strip())
        return self.agent.resume(self.thread_id, user_id=self.user_id, approve=verdicts)

    def _show(self, error: Exception) -> None:
        if os.environ.get("HOLDFAST_DEBUG"):
            traceback.print_exception(error)
        self.view.error(message_of(error))

    # ── Ctrl-C ────────────────────────────────────────────────────────────────────────────────────

    async def _guarded(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of something that Ctrl-C may cut short: then ``None``."""
        task = asyncio.create_task(work)
        await self._watched(task, task.cancel)
        return None if task.cancelled() else task.result()

    async def _watched(self, task: asyncio.Task[Any], on_interrupt: Callable[[], object]) -> None:
        """Wait for the task; its error is raised, that it was cancelled is not."""
        with self._interrupts.calling(on_interrupt):
            await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def _verdict(answer: str) -> bool | str:
    """What somebody says to the question whether a tool may run: whatever is neither yes nor no is a reason."""
    if answer.lower() in ("", "n", "no"):
        return False
    return answer.lower() in ("y", "yes") or answer
