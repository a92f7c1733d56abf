"""The two contracts, and all that keeps them on a database."""
