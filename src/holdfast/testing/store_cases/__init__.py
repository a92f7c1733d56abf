"""The cases of the store's conformance suite, by idea. Use them through `StoreSuite`."""
