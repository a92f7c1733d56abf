"""The model of the examples: what the environment names, else the mock, and it says so."""

from tests.examples.support import run_example


def test_with_nothing_set_it_is_the_mock_and_that_is_said() -> None:
    shown = run_example("config.py")
    assert "Model: MockModel('mock')" in shown
    assert "No model is set, so the mock answers" in shown
    assert "HOLDFAST_MODEL=openai:gpt-4.1-mini" in shown


def test_a_mock_that_was_asked_for_is_not_called_a_substitute() -> None:
    shown = run_example("config.py", HOLDFAST_MODEL_PROVIDER="mock")
    assert "Model: MockModel('mock')" in shown
    assert "No model is set" not in shown


def test_the_named_model_is_taken_and_a_key_alone_chooses_its_provider() -> None:
    named = run_example("config.py", HOLDFAST_MODEL="openai:gpt-4.1", OPENAI_API_KEY="not-a-key")
    assert named == "Model: OpenAIModel('gpt-4.1')\n"
    assert run_example("config.py", OPENAI_API_KEY="not-a-key").startswith("Model: OpenAIModel(")


def test_a_wrong_name_is_an_error_and_not_the_mock() -> None:
    shown = run_example("config.py", code=1, HOLDFAST_MODEL="opnai:gpt-4.1")
    assert "did you mean 'openai:gpt-4.1'" in shown
