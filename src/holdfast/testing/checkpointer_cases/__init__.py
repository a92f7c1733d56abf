"""The cases of the checkpointer's conformance suite, by idea. Use them through `CheckpointerSuite`."""
