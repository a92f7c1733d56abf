"""Every SQL operation, written once as a plan; a database adds a dialect and an engine."""
