"""SWE-agent: trajectories with and without function calling, and several attempts."""

from __future__ import annotations

from pathlib import Path

from tests.importing_agents import make_swe_agent, make_swe_agent_plain, swe_agent_run, told, write_json


def test_a_trajectory_with_function_calling(tmp_path: Path) -> None:
    run = told("swe-agent", make_swe_agent(tmp_path))
    (thread,) = run.threads
    assert thread.id.startswith("kim__shop-1-")
    assert (thread.title, thread.model, thread.about["exit_status"]) == ("kim__shop-1", "gpt-4o", "submitted")
    assert run.lines == [
        ("system", "You are a programmer."),
        ("user", "Which files?"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
    ]
    assert run.calls == [("call_1", "bash", {"command": "ls"})]
    assert run.results == [("call_1", "pears.txt")]
    assert run.thoughts == ["List them."]
    assert [(tool.call_id, tool.duration_ms) for tool in run.tools] == [("call_1", 250.0)]


def test_what_the_whole_run_used_is_counted_with_the_last_answer(tmp_path: Path) -> None:
    assert told("swe-agent", make_swe_agent(tmp_path)).used == [("gpt-4o", 1000, 0, 50, 0.5)]


def test_the_other_answers_of_a_counted_run_have_used_nothing_and_demonstrations_were_no_calls(tmp_path: Path) -> None:
    run = swe_agent_run()
    demo, answer = ({"role": "assistant", "content": "ls", "is_demo": shown} for shown in (True, False))
    run["history"] = [*run["history"][:1], demo, {"role": "user", "content": "pears"}, answer, *run["history"][1:]]
    assert told("swe-agent", write_json(tmp_path / "a.traj", run)).used == [
        ("gpt-4o", 0, 0, 0, 0.0),
        ("gpt-4o", 1000, 0, 50, 0.5),
    ]


def test_a_trajectory_without_function_calling(tmp_path: Path) -> None:
    run = told("swe-agent", make_swe_agent_plain(tmp_path))
    assert [role for role, _ in run.lines] == ["system", "user", "assistant", "user"]
    assert [(tool.tool_name, tool.arguments, tool.result) for tool in run.tools] == [
        ("ls", {"command": "ls"}, "pears.txt")
    ]


def test_steps_are_read_where_there_is_no_history(tmp_path: Path) -> None:
    step = {
        "action": "ls",
        "observation": "pears.txt",
        "response": "I look.",
        "query": [{"role": "user", "content": "Which?"}],
    }
    run = told("swe-agent", write_json(tmp_path / "a.traj", {"trajectory": [step], "info": {}}))
    assert run.lines == [("user", "Which?"), ("assistant", "I look."), ("user", "pears.txt")]


def test_other_attempts_are_children_of_the_chosen_one(tmp_path: Path) -> None:
    chosen = swe_agent_run()
    other = {**swe_agent_run(), "history": [*chosen["history"], {"role": "assistant", "content": "17."}]}
    run = told("swe-agent", write_json(tmp_path / "a.traj", {"attempts": [other, chosen], **chosen}))
    main, child = run.threads
    assert (child.parent, child.id) == (main.id, f"{main.id}-attempt-1")
    assert [len(run.of[thread.id]) for thread in run.threads] == [4, 5]


def test_runs_on_the_same_issue_are_told_apart_and_growing_ones_are_not(tmp_path: Path) -> None:
    run = swe_agent_run()
    other = {**run, "history": [*run["history"][:2], {"role": "assistant", "content": "Hm."}]}
    grown = {**run, "history": [*run["history"], {"role": "assistant", "content": "17."}]}
    names = [
        told("swe-agent", write_json(tmp_path / f"{n}" / "a.traj", one)).threads[0].id
        for n, one in enumerate((run, other, grown))
    ]
    assert names[0] != names[1]
    assert names[0] == names[2]
