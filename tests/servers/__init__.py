"""Real database servers for the tests."""
