"""The commands, as a user types them: what they print, and how they exit."""

import json
import shlex
import subprocess
import sys

import apsw
import pytest

from pyrula.cli import submitting
from pyrula.workflows import Registry, WorkflowClient, workflow


def test_a_run_is_submitted_listed_and_waited_for(pyrula, work):
    assert pyrula("migrate").code == 0
    work()  # a worker registers the workflows: from here on they are known by name
    made = pyrula("submit", "sync", "tenant=acme", "n:=7")
    assert made.code == 0
    run_id = made.out.strip()
    assert run_id in pyrula("runs").out
    work()
    listed = pyrula("runs", "--state", "completed", "--json").json()
    assert [(run["run_id"], run["result"]) for run in listed["runs"]] == [(run_id, "acme 7")]


def test_a_module_given_as_app_checks_params_before_anything_is_stored(pyrula):
    pyrula("migrate")
    refused = pyrula("submit", "--app", "tests.cli.shop:registry", "sync", "colour=red")
    assert refused.code == 2
    assert "colour" in refused.err and "invalid_params" in refused.err
    assert pyrula("runs", "--json").json()["runs"] == []


def test_why_names_the_gate_its_numbers_and_what_would_help(pyrula, ask, work):
    work()
    ask(lambda client: client.submit_many("sync", [{"tenant": "a", "n": n} for n in range(5)]))
    work()
    waiting = pyrula("runs", "--state", "queued", "--key", "a", "--json").json()["runs"][0]["run_id"]
    told = pyrula("why", waiting)
    assert told.code == 0
    assert "gate sync.rate, key a: no token left (0.001 starts/s, burst 3)" in told.out
    assert "pyrula override sync.rate --key a --per-second 0.002" in told.out
    assert "no live worker serves workflow sync" in told.out
    assert "1 run is before it" in told.out
    kinds = {reason["kind"] for reason in pyrula("why", waiting, "--json").json()["reasons"]}
    assert kinds >= {"rate", "no_worker"}


def test_why_of_a_failed_run_shows_what_it_ended_with(pyrula, ask, work):
    work()
    run_id = ask(lambda client: client.submit("sync", {"tenant": "a", "n": -1}))
    work()
    told = pyrula("why", run_id)
    assert "It is over: failed" in told.out
    assert "ValueError: no account -1" in told.out
    assert f"pyrula retry {run_id}" in told.out


def test_why_of_a_parked_run_names_what_it_waits_for(pyrula, ask, work):
    run_id = ask(lambda client: client.submit("waits"))
    work()
    assert "an event named 'go'" in pyrula("why", run_id).out


def test_gates_show_numbers_pauses_and_overrides(pyrula, ask, work):
    work()
    ask(lambda client: client.submit_many("sync", [{"tenant": tenant} for tenant in "aab"]))
    assert pyrula("pause", "sync.limit", "--key", "a", "--for", "600").code == 0
    assert pyrula("override", "sync.rate", "--per-second", "5", "--burst", "9").code == 0
    work()
    shown = pyrula("gates")
    (paused,) = [line for line in shown.out.splitlines() if "PAUSED" in line]
    assert paused.startswith("sync.limit") and "0 of 1 slots" in paused
    assert "override 5/s, burst 9 for all keys" in shown.out
    gates = {(gate["name"], gate["key"]): gate for gate in pyrula("gates", "--json").json()}
    assert gates["sync.limit", "a"]["queued"] == 2
    assert gates["sync.rate", "b"]["burst"] == 9
    assert pyrula("override", "sync.rate", "--clear").code == 0
    assert pyrula("resume", "sync.limit", "--key", "a").code == 0
    work()
    assert len(pyrula("runs", "--state", "completed", "--json").json()["runs"]) == 3


def test_what_a_pause_says_to_type_ends_that_pause(pyrula, work):
    work()
    for key in ("a", "O'Brien & sons", "-x", ""):
        said = pyrula("pause", "sync.limit", "--key", key).out
        undo = shlex.split(said.partition("until: pyrula ")[2])
        assert pyrula(*undo).out.strip() == f"sync.limit, key {key!r}: resumed"
        assert "In force" not in pyrula("gates").out


def test_taking_back_for_all_keys_names_the_keys_that_keep_their_own(pyrula, work):
    work()
    pyrula("pause", "sync.limit", "--key", "a")
    pyrula("override", "sync.limit", "--key", "b", "--max", "4")
    resumed = pyrula("resume", "sync.limit")
    assert "but key 'a' has a pause of its own: pyrula resume sync.limit --key a" in resumed.out
    cleared = pyrula("override", "sync.limit", "--clear")
    assert "but key 'b' has max 4 of its own: pyrula override --clear sync.limit --key b" in cleared.out
    assert pyrula("override", "sync.limit", "--clear", "--json").json()["keys_of_their_own"] == ["b"]
    pyrula("override", "sync.limit", "--max", "7")
    assert (
        "key 'b': as max 7 for all keys says" in pyrula("override", "sync.limit", "--key", "b", "--clear").out
    )
    assert "all keys: as declared" in pyrula("override", "sync.limit", "--clear").out


def test_gates_show_an_override_of_a_key_that_no_run_has_used(pyrula, work):
    work()
    pyrula("pause", "sync.limit", "--key", "mistyped")
    pyrula("override", "sync.rate", "--per-second", "5", "--for", "600")
    (paused,) = [line for line in pyrula("gates").out.splitlines() if "mistyped" in line]
    assert "a pause" in paused and "until" not in paused
    assert "5/s, burst 5" in pyrula("gates", "sync.rate").out
    assert "mistyped" not in pyrula("gates", "sync.rate").out


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e400", "-1", "0"])
def test_seconds_that_are_no_span_are_refused_by_name_and_value(pyrula, work, seconds):
    work()
    for command in (
        ("override", "sync.limit", "--max", "2"),
        ("override", "sync.rate", "--per-second", "2"),
        ("pause", "sync.limit"),
    ):
        refused = pyrula(*command, "--for", seconds, "--json")
        assert refused.code == 2
        error = refused.json()["error"]
        assert error["code"] == "invalid_payload"
        assert f"is {float(seconds)}; it must be" in error["message"]


def test_events_are_buffered_listed_and_flushed(pyrula, work):
    work()
    assert pyrula("trigger", "digest", "user=u1").out.strip() == "buffered"
    completed = pyrula("trigger", "digest", "--event", '{"user": "u1"}', "--json").json()
    assert completed["run_id"]
    pyrula("trigger", "digest", "user=u2")
    assert "u2" in pyrula("buffers").out
    assert pyrula("flush", "digest", "u2", "--json").json()["run_id"]
    assert "no events are buffered" in pyrula("buffers").out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "null"),
        (("by=ann", "sure:=true"), '{"by":"ann","sure":true}'),
        (("--payload", "[1, 2]"), "[1,2]"),
        (("--payload", '{"by": "bob"}', "by=ann"), '{"by":"ann"}'),
    ],
)
def test_a_run_that_waits_is_sent_what_it_waits_for(pyrula, work, arguments, told):
    pyrula("migrate")
    work()
    pyrula("submit", "waits", "--run-id", "r1")
    work()
    assert "pyrula send-event r1 go" in pyrula("why", "r1").out
    assert pyrula("send-event", "r1", "go", *arguments).out.strip() == "sent"
    work()
    (run,) = pyrula("runs", "--json").json()["runs"]
    assert (run["state"], json.dumps(run["result"], separators=(",", ":"))) == ("completed", told)


def test_runs_are_cancelled_and_retried(pyrula, ask, work):
    work()
    run_id = ask(lambda client: client.submit("waits"))
    assert "cancelling" in pyrula("cancel", run_id).out
    assert "had ended" in pyrula("cancel", run_id).out
    assert "queued again" in pyrula("retry", run_id).out
    lost = pyrula("cancel", run_id, "nonesuch")
    assert lost.code == 2 and "nonesuch  not found" in lost.out


def test_restamp_gives_queued_runs_the_registered_declaration(pyrula, ask, url):
    older = Registry()

    @workflow(name="sync", registry=older)
    async def unlimited(ctx, tenant: str) -> None: ...

    async def submit(client):
        await WorkflowClient(client.store, older).submit("sync", {"tenant": "a"})

    ask(submit)
    assert "1 queued runs" in pyrula("restamp", "sync", "--app", "tests.cli.shop:registry").out


def test_check_finds_nothing_wrong_and_exits_0(pyrula, work):
    work()
    told = pyrula("check")
    assert told.code == 0 and "all counters agree" in told.out
    assert pyrula("check", "--json").json() == {"discrepancies": []}


def test_check_names_each_discrepancy_and_exits_1(pyrula, work, tmp_path):
    pyrula("migrate")
    work()
    pyrula("submit", "sync", "tenant=a")
    work()
    connection = apsw.Connection(str(tmp_path / "runs.db"))
    connection.execute("UPDATE gates SET in_use = in_use + 1 WHERE name = 'sync.limit'")
    connection.close()
    told = pyrula("check")
    assert (told.code, told.out.splitlines()[-1]) == (1, "1 discrepancy")
    assert "gate sync.limit (key 'a') counts 1 in use" in told.out
    told = pyrula("check", "--json")
    assert told.code == 1 and len(told.json()["discrepancies"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["why", "nonesuch"], "no run 'nonesuch'"),
        (["retry", "nonesuch"], "not found"),
        (["cancel", "nonesuch"], "not found"),
        (["gates", "nonesuch"], "known: slow.limit, sync.limit"),
        (["pause", "nonesuch"], "no gate is called 'nonesuch'"),
        (["resume", "nonesuch"], "no gate is called 'nonesuch'"),
        (["override", "nonesuch", "--max", "1"], "no gate is called 'nonesuch'"),
        (["submit", "nonesuch"], "no workflow 'nonesuch'"),
        (["trigger", "nonesuch"], "no workflow 'nonesuch'"),
        (["send-event", "nonesuch", "go"], "no run 'nonesuch'"),
        (["restamp", "nonesuch"], "no workflow 'nonesuch'"),
        (["buffers", "nonesuch"], "no workflow 'nonesuch'"),
        (["flush", "nonesuch"], "no workflow 'nonesuch'"),
        (["flush", "sync"], "workflow 'sync' has no trigger"),
        (["flush", "digest", "nobody"], "nothing is buffered for key 'nobody'"),
        (["limits", "get", "nonesuch"], "nonesuch"),
    ],
)
def test_a_name_that_is_nowhere_exits_2(pyrula, work, arguments, said):
    work()
    told = pyrula(*arguments)
    assert told.code == 2
    assert said in told.out + told.err


def test_a_gate_that_is_declared_and_not_used_is_no_error(pyrula, work):
    work()
    told = pyrula("gates", "sync.limit")
    assert (told.code, told.out.strip()) == (0, "no gates like that")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["why"], "run_id"),
        (["runs", "--state", "running"], "executing"),
        (["submit", "sync", "tenant"], "NAME=TEXT"),
        (["submit", "sync", "n:=x"], "not JSON"),
        (["submit", "sync", "--params", "[1]"], "no JSON object"),
        (["submit", "nonesuch"], "no workflow 'nonesuch'"),
        (["pause", "nonesuch"], "nonesuch"),
        (["override", "g"], "give one of"),
        (["override", "g", "--max", "1", "--clear"], "give one of"),
        (["runs", "--store", "redis://x"], "redis"),
        (["submit", "sync", "--params", "{"], "Invalid value for --params: not JSON"),
        (["worker", "shop", "--processes", "513"], "less than or equal to 512"),
        (["worker", "no.such.module"], "Run pyrula in the folder that holds it"),
        (["worker", "shop.py"], "such as shop, and run"),
        (["worker", "./app/shop.py"], "such as app.shop, and run"),
        (["worker", "tests.cli.lacking"], "No module named 'no_such_library' (/"),
        (["worker", "json"], "declares no workflow"),
        (["worker", "tests.cli.shop:nothing"], "nothing"),
    ],
)
def test_wrong_use_exits_2_and_says_what_to_do(pyrula, arguments, said):
    pyrula("migrate")
    told = pyrula(*arguments)
    assert told.code == 2
    assert said in " ".join((told.out + told.err).replace("│", " ").split())


@pytest.mark.parametrize("days", ["a week", "nan", "-1", "1e300", "1_0", "٧"])
def test_a_retention_that_is_no_number_of_days_is_refused(pyrula, monkeypatch, days):
    monkeypatch.setenv("PYRULA_RETENTION_DAYS", days)
    told = pyrula("migrate")
    assert told.code == 2 and "retention" in (told.out + told.err).lower()


def test_a_store_is_not_made_by_looking_at_it(pyrula, url, tmp_path):
    told = pyrula("runs")
    assert told.code == 2
    assert "no store at" in " ".join(told.err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "runs", "gates"])
def test_a_shard_that_is_missing_is_named(pyrula, tmp_path, command):
    files = [tmp_path / f"{name}.db" for name in "abc"]
    store = " ".join(f"sqlite:///{file}" for file in files)
    assert pyrula("migrate", "--store", store).code == 0
    files[1].unlink()
    told = pyrula(command, "--store", store)
    assert told.code == 1
    assert f"{files[1]}: there is no store, and shard 1 of this one was made before" in told.err
    assert not files[1].exists()


def test_without_a_store_it_says_how_to_name_one(pyrula, monkeypatch):
    monkeypatch.delenv("PYRULA_STORE")
    told = pyrula("gates")
    assert told.code == 2
    assert "PYRULA_STORE" in told.err


def test_errors_are_json_for_programs(pyrula):
    pyrula("migrate")
    told = pyrula("why", "nonesuch", "--json")
    assert told.code == 2
    assert json.loads(told.out)["error"]["code"] == "run_not_found"


@pytest.mark.parametrize(
    "arguments", [("nonesuch",), ("why",), ("override", "sync.limit"), ("runs", "--limit", "0")]
)
def test_wrong_use_is_json_for_programs_too(pyrula, arguments):
    pyrula("migrate")
    told = pyrula(*arguments, "--json")
    assert told.code == 2
    assert json.loads(told.out)["error"]["code"] == "wrong_use"


def test_each_command_is_listed_in_one_piece(pyrula, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("TERMINAL_WIDTH", "250")
    lines = [line for line in pyrula("--help").out.splitlines() if line.startswith("│ ")]
    assert any(line.startswith("│ demo ") for line in lines)
    assert [line for line in lines if line.startswith("│   ")] == []  # none goes on in another line


def test_it_tells_its_version(pyrula):
    told = pyrula("--version")
    assert (told.code, told.out.split()[0]) == (0, "pyrula")


@pytest.mark.parametrize(
    ("lacking", "arguments", "extra"),
    [
        ("starlette", ["serve"], "http"),
        ("opentelemetry.trace", ["serve", "--otel"], "otel"),
        ("opentelemetry.trace", ["worker", "tests.cli.shop:registry", "--otel"], "otel"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(pyrula, monkeypatch, lacking, arguments, extra):
    monkeypatch.setitem(sys.modules, lacking, None)
    told = pyrula(*arguments)
    assert told.code == 2
    assert f"pip install 'pyrula-workflows[{extra}]'" in told.err


@pytest.mark.parametrize(
    ("lacking", "module", "extra"),
    [
        ("starlette", "pyrula.web", "http"),
        ("opentelemetry", "pyrula.telemetry.otel", "otel"),
        ("opentelemetry", "pyrula.telemetry.meters", "otel"),
    ],
)
def test_a_module_without_its_extra_says_what_to_install(lacking, module, extra):
    """In a process of its own: here all of them are imported already."""
    code = f"import sys; sys.modules[{lacking!r}] = None; import {module}"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    last = told.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {module} needs {lacking}")
    assert last.endswith(f"of the extra {extra}: pip install 'pyrula-workflows[{extra}]'")


def test_waiting_says_for_what_when_it_is_long_in_coming(pyrula, work, monkeypatch):
    work()
    monkeypatch.setattr(submitting, "_PATIENCE_SECONDS", 0.01)
    told = pyrula("submit", "sync", "tenant=a", "--run-id", "r1", "--wait", "--timeout", "0.2")
    assert told.code == 1
    first, last = told.err.splitlines()
    assert first.startswith("waiting for run r1: No live worker serves workflow 'sync'")
    assert last.startswith("error: run r1 is not over after 0.2 s, and goes on: No live worker serves")


def test_a_name_that_workers_know_is_near_to_a_mistyped_one(pyrula, work):
    work()
    assert "near are 'digest'" in pyrula("trigger", "digets", "user=u1").err
