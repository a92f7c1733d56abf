"""A strict double of python-oracledb, which runs Oracle SQL on PostgreSQL, and the tests that use it."""
