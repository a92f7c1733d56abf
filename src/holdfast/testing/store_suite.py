"""The Store contract as tests. A backend's test file is a fixture and a class statement::

    import pytest
    from holdfast.testing.store_suite import StoreSuite

    @pytest.fixture
    def open_store(tmp_path):
        def open_store(**options):
            return MyStore(tmp_path / "items", **{k: v for k, v in options.items() if v is not None})
        return open_store

    class TestMyStore(StoreSuite):
        required = frozenset({"compare_and_set", "ttl"})

The function takes ``clock=``, ``dimension=`` and ``distance_metric=`` and opens a new object on the same
storage each time; with ``shared_storage = False`` in the class, tests that need two objects are left out.
"""

from holdfast.testing.store_cases.base import OpenStore
from holdfast.testing.store_cases.batches import BatchCases
from holdfast.testing.store_cases.declared import DeclaredCases
from holdfast.testing.store_cases.expiry import ExpiryCases
from holdfast.testing.store_cases.filtering import FilteringCases
from holdfast.testing.store_cases.items import ItemCases
from holdfast.testing.store_cases.listing import ListingCases
from holdfast.testing.store_cases.naming import NamingCases
from holdfast.testing.store_cases.nearness import NearnessCases
from holdfast.testing.store_cases.spaces import SpaceCases
from holdfast.testing.store_cases.wording import WordingCases

__all__ = ["OpenStore", "StoreSuite"]


class StoreSuite(
    ItemCases,
    NamingCases,
    ListingCases,
    FilteringCases,
    ExpiryCases,
    BatchCases,
    WordingCases,
    NearnessCases,
    SpaceCases,
    DeclaredCases,
):
    """Every promise of the contract; tests are chosen by what the backend declares."""
