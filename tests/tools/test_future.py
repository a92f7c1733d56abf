"""Annotations that are only text (PEP 563) are looked up where the tool was made."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from holdfast.core.messages import ToolCall
from holdfast.tools import tool

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]  # a name that exists for type checkers only


@dataclasses.dataclass
class Outer:
    value: int


@tool
def use_outer(outer: Outer, count: Annotated[int, Field(ge=1)] = 2) -> Unknown:
    return outer.value * count


def test_a_name_of_the_module_is_found_and_an_unknown_result_type_does_no_harm() -> None:
    assert use_outer.parameters["properties"]["count"] == {"type": "integer", "minimum": 1, "default": 2}
    result = asyncio.run(use_outer.run(ToolCall(name="use_outer", arguments={"outer": {"value": 4}})))
    assert result.content == "8"


def test_a_name_that_is_local_to_the_making_function_is_found() -> None:
    @dataclasses.dataclass
    class Local:
        value: int

    @tool(name="inner")
    def use_local(items: list[Local]) -> int:
        return sum(item.value for item in items)

    call = ToolCall(name="inner", arguments={"items": [{"value": 4}, {"value": "5"}]})
    assert asyncio.run(use_local.run(call)).content == "9"
