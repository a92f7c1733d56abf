"""An agent, its memory and the command line on a database server, by its address alone."""

from click.testing import CliRunner

from holdfast import Agent
from holdfast.cli.commands import app
from tests.servers.oracle import Server, on_all_servers


@on_all_servers()
def test_an_agent_its_memory_and_the_command_line_need_only_the_address(database: Server) -> None:
    agent = Agent("You help.", model="mock:", checkpointer=database.url, memory=database.url)
    agent.run_sync("My puppy is called Biscuit.", thread_id="first", user_id="ann")
    answer = agent.run_sync("What is my puppy called?", thread_id="second", user_id="ann")
    assert "Biscuit" in str(answer.message)
    other = agent.run_sync("What is my puppy called?", thread_id="second", user_id="bob")
    assert "Biscuit" not in str(other.message)
    agent.close()
    shown = CliRunner().invoke(app, ["--db", database.url, "--user", "ann", "threads"])
    assert shown.exit_code == 0, shown.output
    assert [line.split("\t")[0] for line in shown.output.splitlines()] == ["second", "first"]
    found = CliRunner().invoke(app, ["--db", database.url, "--user", "ann", "search", "puppy"])
    assert "Biscuit" in found.output
