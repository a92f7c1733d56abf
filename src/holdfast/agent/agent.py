"""`Agent`: the public face of the loop. Reading path: `Agent.run` -> `running.play` -> `turn.take_turn`."""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from pydantic import ValidationError

from holdfast.agent.config import AgentConfig, AgentOptions, configure
from holdfast.agent.context import RunContext, current_context
from holdfast.agent.journal import with_results
from holdfast.agent.limits import Limits
from holdfast.agent.memories import Memories
from holdfast.agent.portal import run_blocking
from holdfast.agent.progress import FOLLOW, OPEN, TURN, before_turn, turn_of, unanswered, unfinished
from holdfast.agent.recovery import Approve
from holdfast.agent.reflexion import resolve_reflexion
from holdfast.agent.result import AgentResult
from holdfast.agent.running import Request, Run, play
from holdfast.agent.session import Kit
from holdfast.agent.setup import (
    open_checkpointer,
    resolve_conversation,
    resolve_model,
    resolve_tools,
    tool_specs,
)
from holdfast.agent.telemetry import resolve_telemetry
from holdfast.agent.threads import ThreadCache
from holdfast.agent.time_travel import TimeTravel
from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.frozen import freeze_mapping
from holdfast.core.ids import new_id
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.core.state import AgentState
from holdfast.memory import validate
from holdfast.memory.records import Checkpoint, Page

if TYPE_CHECKING:
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.learning import LearningReport

__all__ = ["Agent"]

UPDATE_ATTEMPTS = 10


class Agent:
    """A model with tools and a memory of its conversations.

    Give it a ``checkpointer`` and every step of every turn is stored: a killed turn goes on in another process, with
    `resume` or with the next `run`. Without one it keeps threads in this process, and only those that are named.
    """

    def __init__(
        self,
        instructions: str | None = None,
        *,
        config: AgentConfig | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        """See `AgentConfig` for the options; docs/reference/agent.md has a table of them."""
        changes: dict[str, Any] = dict(options)
        if instructions is not None:
            changes["instructions"] = instructions
        self.config = configure(config, changes)
        model = resolve_model(self.config.model)
        telemetry = resolve_telemetry(self.config.telemetry)
        self._memories = Memories(self.config, model, telemetry)
        self._checkpointer, self._owned, self._keeps_unnamed = open_checkpointer(
            self.config.checkpointer, self._memories.checkpointer
        )
        self._memories.attach(self._checkpointer, self._keeps_unnamed)
        self._tools = resolve_tools([*self.config.tools, *self._memories.tools])
        self._cache = ThreadCache()
        reflexion = resolve_reflexion(self.config.reflexion)
        self._kit = Kit(
            agent_id=self.config.agent_id,
            model=model,
            tools=self._tools,
            specs=tool_specs(self._tools),
            system_prompt=self.config.prompt,
            reflexion=reflexion,
            conversation=resolve_conversation(self.config.conversation_manager),
            telemetry=telemetry,
            model_options=dict(self.config.model_options),
            model_retries=self.config.model_retries,
            max_repeats=self.config.max_repeats,
            save_every=self.config.checkpoint_every_n_iterations,
            memory_tokens=self.config.memory_tokens,
            on_memory_error=self.config.on_memory_error,
        )

    @property
    def agent_id(self) -> str:
        return self.config.agent_id

    @property
    def memory(self) -> "AgentMemory | None":
        """The long-term memory, if it was given one."""
        return self._memories.memory

    @property
    def learning(self) -> "LearningReport":
        """What finding facts in the background has taken since the agent was made: tokens, facts, failures."""
        return self._memories.report

    @property
    def checkpointer(self) -> "BaseCheckpointer":
        """Where the threads are kept."""
        return self._checkpointer

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        prompt: str | Message,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """One turn: the events as they happen (``async for``), or the result (``await``).

        No ``thread_id`` is a new thread. ``user_id`` is a partition: the same thread id under two users is two
        threads. ``metadata`` is what tools see in their run context, and what the turn's checkpoints carry. If the
        thread is in the middle of a turn that was cut off, that turn is finished first.
        """
        return self._run(_as_prompt(prompt), thread_id, user_id, metadata, None)

    def run_sync(
        self,
        prompt: str | Message,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AgentResult:
        """The result of one turn. Blocks its caller, also inside a running event loop."""
        return _wait_for(self.run(prompt, thread_id=thread_id, user_id=user_id, metadata=metadata))

    def resume(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        approve: Approve | None = None,
    ) -> Run:
        """Go on with the thread's unfinished turn, at once, even if another process still runs it: that one gets
        `Conflict` before its next tool.

        Calls that had finished are not run again; one that may have been running is run again only if its tool is
        ``idempotent``, else the model is told that its outcome is unknown. A thread at rest gives its last answer.
        ``approve`` decides about calls that wait for approval: ``True``, ``False``, a reason to refuse, or a mapping
        of these by the id of a call.
        """
        validate.identifier(thread_id, "thread_id")
        return self._run(None, thread_id, user_id, metadata, _as_approve(approve))

    def resume_sync(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        approve: Approve | None = None,
    ) -> AgentResult:
        """The result of `resume`. Blocks its caller, also inside a running event loop."""
        return _wait_for(self.resume(thread_id, user_id=user_id, metadata=metadata, approve=approve))

    def _run(
        self,
        prompt: Message | None,
        thread_id: str | None,
        user_id: str | None,
        metadata: Mapping[str, Any] | None,
        approve: Approve | None,
    ) -> Run:
        outer = current_context.get()
        given = validate.metadata(metadata)
        if outer is not None:  # a run inside a tool works for whom the outer one works
            user_id = outer.user_id if user_id is None else user_id
            given = {**outer.metadata, **given}
        checkpointer: BaseCheckpointer | None = self._scoped(user_id)
        if thread_id is None and not self._keeps_unnamed:
            checkpointer = None
        thread = new_id() if thread_id is None else validate.identifier(thread_id, "thread_id")
        run_metadata = freeze_mapping(given)
        request = Request(
            kit=self._kit,
            checkpointer=checkpointer,
            cache=self._cache,
            context=RunContext(user_id, thread, new_id(), self.agent_id, run_metadata),
            prompt=prompt,
            limits=self._limits,
            memory=self._memories.of(user_id),
            approve=approve,
            metadata=run_metadata,
            on_conflict=self.config.on_conflict,
            patience=self.config.conflict_patience,
        )
        return Run(lambda channel: play(request, channel))

    def _limits(self) -> Limits:
        return Limits(self.config.max_iterations, self.config.token_budget, self.config.time_budget)

    # ── threads ───────────────────────────────────────────────────────────────────────────────────

    async def get_state(
        self, thread_id: str, checkpoint_id: str | None = None, *, user_id: str | None = None
    ) -> AgentState | None:
        """The thread's state now, or at a checkpoint. ``None`` if it doesn't exist."""
        return await self._scoped(user_id).load(thread_id, checkpoint_id)

    async def get_state_history(
        self, thread_id: str, limit: int = 10, *, user_id: str | None = None, after: str | None = None
    ) -> Page[Checkpoint]:
        """The thread's checkpoints with their states, newest first. ``page.next`` goes on as ``after=``."""
        checkpointer = self._scoped(user_id)
        page = await checkpointer.history(thread_id, limit, after=after)
        found = [await checkpointer.get(thread_id, info.checkpoint_id) for info in page]
        return Page([checkpoint for checkpoint in found if checkpoint is not None], page.next)

    async def update_state(
        self,
        thread_id: str,
        update: Mapping[str, Any] | Callable[[AgentState], AgentState],
        *,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Change the thread's state by hand: fields by name, or a function of the state. Returns the checkpoint's id.

        The states before stay in the history. If somebody else saves at the same moment, the update is made again on
        what they saved. A turn that is running on the thread gets `Conflict`.
        """
        change = _as_update(update)
        checkpointer, travel = self._scoped(user_id), self._travel(user_id)
        for attempt in range(UPDATE_ATTEMPTS):
            checkpoint = await checkpointer.get(thread_id)
            if checkpoint is None:
                raise InvalidInput(f"there is no thread {thread_id!r} to update")
            state = change(await with_results(checkpointer, checkpoint))
            back = await travel.back_to(checkpoint, state)
            state = state.with_metadata({FOLLOW: True}) if back else state
            notes = {**back, "step": "update", **validate.metadata(metadata)}
            try:
                saved = await checkpointer.save(
                    state, thread_id, metadata=notes, parent=checkpoint.info.checkpoint_id
                )
            except Conflict:
                if attempt + 1 == UPDATE_ATTEMPTS:
                    raise
            else:
                await travel.follow(state, thread_id, saved)
                return saved
        raise AssertionError("the last attempt returns or raises")

    async def abandon(self, thread_id: str, *, user_id: str | None = None) -> str | None:
        """Take an unfinished turn back, prompt and all: for one that can't be finished, such as a prompt that the
        model's service refuses. What its tools did is not undone; the history still tells. Returns the id of the new
        head, or ``None`` if no turn was unfinished. A run that is still at it gets `Conflict`."""
        checkpointer = self._scoped(user_id)
        checkpoint = await checkpointer.get(thread_id)
        if checkpoint is None:
            raise InvalidInput(f"there is no thread {thread_id!r}")
        if not unfinished(checkpoint.state):
            return None
        state = before_turn(checkpoint.state)
        notes, parent = {"step": "abandon"}, checkpoint.info.checkpoint_id
        return await checkpointer.save(state, thread_id, metadata=notes, parent=parent)

    async def rewind(self, thread_id: str, checkpoint_id: str, *, user_id: str | None = None) -> str:
        """Put the thread back to where it was at a checkpoint. What came after stays in the history. Returns the id
        of the new head."""
        name = validate.identifier(checkpoint_id, "checkpoint_id")
        return await self._travel(user_id).rewind(thread_id, name)

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        new_thread_id: str | None = None,
        *,
        user_id: str | None = None,
    ) -> str:
        """A new thread that begins as this one was at its head, or at a checkpoint. Returns its id."""
        new = new_id() if new_thread_id is None else new_thread_id
        await self._travel(user_id).fork(thread_id, checkpoint_id, new)
        return new

    async def pending_approvals(self, thread_id: str, *, user_id: str | None = None) -> tuple[ToolCall, ...]:
        """The calls that wait for approval on that thread."""
        state = await self._scoped(user_id).load(thread_id)
        if state is None or not unfinished(state):
            return ()
        turn = turn_of(state)
        if turn is not None and turn.status == OPEN:  # they may run: somebody has allowed them
            return ()
        tools = self._tools
        return tuple(
            [call for call in unanswered(state) if call.name in tools and tools[call.name].requires_approval]
        )

    def _travel(self, user_id: str | None) -> TimeTravel:
        return TimeTravel(self._scoped(user_id), self._memories, user_id)

    def _scoped(self, user_id: str | None) -> "BaseCheckpointer":
        if user_id is None:
            return self._checkpointer
        return self._checkpointer.scoped(validate.identifier(user_id, "user_id"))

    # ── memory ────────────────────────────────────────────────────────────────────────────────────

    async def catch_up(self) -> int:
        """Find the facts in all that users said and that no process has come to yet, as when one was killed. Returns
        in how many episodes. For a start-up or a nightly job: a user's next run does the same for that user."""
        return await self._memories.catch_up()

    # ── life ──────────────────────────────────────────────────────────────────────────────────────

    async def aclose(self) -> None:
        """Close what the agent opened itself: a database that was given as a URL, a model that was given by name."""
        self._cache.clear()
        try:
            await self._memories.aclose()
        finally:
            if self._owned is not None:
                await self._owned.close()
            close = getattr(self._kit.model, "aclose", None)  # a third party's model need not have one
            if close is not None and not _is_given(self.config.model):
                await close()

    def close(self) -> None:
        """The same as `aclose`, for code without an event loop."""
        run_blocking(self.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Agent {self.agent_id!r} with {len(self._tools)} tools>"


def _wait_for(run: Run) -> AgentResult:
    async def finish() -> AgentResult:
        return await run

    return run_blocking(finish)


def _is_given(model: object) -> bool:
    return model is not None and not isinstance(model, str)


def _as_prompt(prompt: object) -> Message:
    if isinstance(prompt, str):
        prompt = Message.user(prompt)
    if isinstance(prompt, Message) and prompt.role is Role.USER:
        if not (prompt.content or "").strip():
            raise InvalidInput(f"prompt must not be empty or blank, got {prompt.content!r}")
        return prompt
    got = f"a {prompt.role.value} message" if isinstance(prompt, Message) else type(prompt).__name__
    raise InvalidInput(f"prompt must be a string or a user Message, got {got}")


def _as_approve(approve: object) -> Approve | None:
    if approve is None or isinstance(approve, bool | str):
        return approve
    if isinstance(approve, Mapping) and all(
        isinstance(key, str) and isinstance(value, bool | str) for key, value in approve.items()
    ):
        return dict(approve)
    raise InvalidInput(
        "approve must be True, False, a reason to refuse, or a mapping of these by the id of a call,"
        f" got {type(approve).__name__}"
    )


def _with_fields(state: AgentState, fields: Mapping[str, Any]) -> AgentState:
    given = fields.get("metadata")
    ours = {key: state.metadata[key] for key in (TURN, FOLLOW) if key in state.metadata}
    if isinstance(given, Mapping) and ours:  # how far the turn has come is not the caller's
        fields = {**fields, "metadata": {**ours, **given}}
    try:
        return state.model_copy(update=fields)
    except ValidationError as error:
        first = error.errors()[0]
        field, value = ".".join(map(str, first["loc"])) or "update", first.get("input")
        raise InvalidInput(f"{field}: {first['msg']}, got {value!r} ({type(value).__name__})") from None


def _as_update(
    update: Mapping[str, Any] | Callable[[AgentState], AgentState],
) -> Callable[[AgentState], AgentState]:
    if isinstance(update, Mapping):
        fields = copy.copy(dict(update))
        if unknown := sorted(set(fields) - AgentState.model_fields.keys()):
            raise InvalidInput(f"AgentState has no field {unknown[0]!r}")
        return lambda state: _with_fields(state, fields)
    if callable(update):
        return update
    raise InvalidInput(f"update must be a mapping of fields or a function, got {type(update).__name__}")
