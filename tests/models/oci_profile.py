"""What the tests of OCI share: a profile with a key that is made for this run, a tool, and how calls are compared."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from holdfast.core.messages import Message
from holdfast.models.base import ToolSpec
from tests.models.suite import KEY

__all__ = ["COMPARTMENT", "CONFIG", "PRIVATE", "SEARCH", "USAGE", "calls", "no_thread_is_left"]

COMPARTMENT = "ocid1.compartment.oc1..test"
USAGE = {
    "promptTokens": 20,
    "completionTokens": 5,
    "totalTokens": 25,
    "promptTokensDetails": {"cachedTokens": 8},
}
SEARCH = ToolSpec(
    "search",
    "Find notes.",
    {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["q"],
    },
)
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def config() -> dict[str, str]:
    """A profile with a key that is made for this run, and locked with `KEY`."""
    pem = PRIVATE.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY.encode()),
    )
    return {
        "user": "ocid1.user.oc1..test",
        "tenancy": "ocid1.tenancy.oc1..test",
        "fingerprint": ":".join(["ab"] * 16),
        "key_content": pem.decode(),
        "pass_phrase": KEY,
        "region": "us-chicago-1",
    }


CONFIG = config()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "holdfast-oci":
            thread.join(5)
            assert not thread.is_alive(), "a call that nobody waits for must end"


def calls(message: Message) -> list[tuple[str, dict[str, Any]]]:
    return [(one.name, dict(one.arguments)) for one in message.tool_calls]
