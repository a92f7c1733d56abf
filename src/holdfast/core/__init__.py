"""Pure data: no I/O, no event loop, no database."""
