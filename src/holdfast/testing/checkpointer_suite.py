"""The conformance suite of the checkpointer contract. A backend's tests are a fixture and a class statement::

    class TestMyCheckpointer(CheckpointerSuite):
        @pytest.fixture
        def open_checkpointer(self, tmp_path):
            def open(*, clock=None, ttl_seconds=None):
                return MyCheckpointer(tmp_path / "db", clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

            return open

Tests are chosen by what the backend declares; what it does not declare must raise.
"""

from holdfast.testing.checkpointer_cases.base import OpenCheckpointer
from holdfast.testing.checkpointer_cases.branching import BranchingCases
from holdfast.testing.checkpointer_cases.deleting import DeletingCases
from holdfast.testing.checkpointer_cases.ids import IdsCases
from holdfast.testing.checkpointer_cases.life import LifeCases
from holdfast.testing.checkpointer_cases.listing import ListingCases
from holdfast.testing.checkpointer_cases.reading import ReadingCases
from holdfast.testing.checkpointer_cases.retention import ExpiryCases, RetentionCases
from holdfast.testing.checkpointer_cases.saving import SavingCases
from holdfast.testing.checkpointer_cases.scopes import ScopesCases
from holdfast.testing.checkpointer_cases.searching import SearchingCases
from holdfast.testing.checkpointer_cases.transfer import TransferCases
from holdfast.testing.checkpointer_cases.writes import WritesCases

__all__ = ["CheckpointerSuite", "OpenCheckpointer"]


class CheckpointerSuite(
    SavingCases,
    ReadingCases,
    DeletingCases,
    BranchingCases,
    RetentionCases,
    ExpiryCases,
    ListingCases,
    SearchingCases,
    WritesCases,
    ScopesCases,
    TransferCases,
    IdsCases,
    LifeCases,
):
    """Every promise of :class:`holdfast.memory.checkpointer.BaseCheckpointer`, as tests."""
