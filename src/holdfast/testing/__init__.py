"""What tests of agents and backends are made of. A name is imported when it is first used.

The models need nothing but Holdfast itself; the suites and the model tests need the extra ``testing``.
"""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.testing.checkpointer_suite import CheckpointerSuite
    from holdfast.testing.clock import FrozenClock
    from holdfast.testing.model import compare_backends, model_steps
    from holdfast.testing.models import FunctionModel, ModelCall, ScriptedModel
    from holdfast.testing.store_model import compare_stores, store_steps
    from holdfast.testing.store_suite import StoreSuite

__all__ = [
    "CheckpointerSuite",
    "FrozenClock",
    "FunctionModel",
    "ModelCall",
    "ScriptedModel",
    "StoreSuite",
    "compare_backends",
    "compare_stores",
    "model_steps",
    "store_steps",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "CheckpointerSuite": "holdfast.testing.checkpointer_suite",
        "FrozenClock": "holdfast.testing.clock",
        "FunctionModel": "holdfast.testing.models",
        "ModelCall": "holdfast.testing.models",
        "ScriptedModel": "holdfast.testing.models",
        "StoreSuite": "holdfast.testing.store_suite",
        "compare_backends": "holdfast.testing.model",
        "compare_stores": "holdfast.testing.store_model",
        "model_steps": "holdfast.testing.model",
        "store_steps": "holdfast.testing.store_model",
    },
)
