"""What a client does about answers that are odd, broken, late or missing."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from orihon.drivers.http import Timeouts
from orihon.errors import (
    Cancelled,
    CutOff,
    EmptyAnswer,
    NotJSON,
    Refused,
    TimedOut,
    Unreachable,
)
from orihon.llm import scripted
from orihon.llm.scripted import Fault, Reply, ScriptStep, Slow
from tests.conformance.client_behaviour import KEY, QUICK, ClientBehaviour
from tests.helpers import logged, refused
from tests.integration.run_supervisor import eventually


class ClientFaults(ClientBehaviour):
    """Whatever goes wrong, one clear error says so and nothing is stored."""

    # ---- odd answers ---------------------------------------------------------------------------------------------

    def test_arguments_that_are_no_json_stay_a_text(self, tmp_path: Path, stream: bool) -> None:
        script: list[ScriptStep] = [Reply(calls=[("read_file", '{"path": "a')]), Reply("ok")]
        with self.talking(script, tmp_path, stream=stream) as (client, model):
            _, calls = client.get_response()
            self.check_invalid(calls[0]["arguments"])
            client.send_function_result("read_file", "the arguments are not JSON")
            assert client.get_response() == ("ok", [])
            assert len(model.requests) == 2

    def check_invalid(self, arguments: str) -> None:
        assert arguments == '{"path": "a'

    def test_calls_with_one_id_are_told_apart(self, tmp_path: Path, stream: bool) -> None:
        twice = [("read_file", {"n": 1}, "call_0"), ("read_file", {"n": 2}, "call_0")]
        script: list[ScriptStep] = [Reply(calls=twice), Reply(calls=twice[:1]), Reply("ok")]
        with self.talking(script, tmp_path, stream=stream) as (client, _):
            seen = set()
            for count in (2, 1):
                _, calls = client.get_response()
                assert len(calls) == count
                for call in calls:
                    seen.add(call["id"])
                    client.send_function_result("read_file", call["arguments"], tool_call_id=call["id"])
            assert len(seen) == 3
            assert client.get_response() == ("ok", [])

    def test_an_empty_answer_is_asked_for_once_more(self, tmp_path: Path, stream: bool) -> None:
        with self.talking([Reply(""), Reply("here")], tmp_path, stream=stream) as (client, _):
            assert client.get_response() == ("here", [])
        with self.talking(lambda _: Reply(" "), tmp_path / "b", stream=stream) as (client, model):
            self.fails(client, EmptyAnswer, "nothing")
            assert len(model.requests) == 2

    # ---- faults --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("after", [0, 1, 60, 300])
    def test_a_cut_stream_stores_nothing(self, tmp_path: Path, after: int, stream: bool) -> None:
        long = Reply("This sentence will never be finished. " * 20, calls=[("read_file", {"path": "a.py"})])
        script: list[ScriptStep] = [scripted.CutConnection(after, long), Reply("again")]
        with self.talking(script, tmp_path, stream=stream) as (client, model):
            self.fails(client, CutOff, "connection")
            assert client.get_response() == ("again", [])
            assert len(model.requests) == 2

    def test_a_stream_that_ends_politely_but_early_is_cut_off_too(self, tmp_path: Path) -> None:
        with self.talking([Fault(200, self.unfinished(), content_type=self.stream_type())], tmp_path) as (client, _):
            self.fails(client, CutOff, "unfinished")

    def unfinished(self) -> str:
        return 'data: {"choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}\n\n'

    def test_an_error_inside_a_stream_is_told(self, tmp_path: Path) -> None:
        broken = Fault(200, self.unfinished() + self.stream_error("bad luck"), content_type=self.stream_type())
        with self.talking([broken, Reply("again")], tmp_path) as (client, _):
            assert "bad luck" in str(self.fails(client, Refused, "status"))
            assert client.get_response() == ("again", [])

    def test_a_passing_error_inside_a_stream_is_repeated_unless_something_was_shown(self, tmp_path: Path) -> None:
        said = self.unfinished() + self.stream_error("busy", "api_error")
        broken = Fault(200, said, content_type=self.stream_type())
        with self.talking([broken, Reply("again"), broken, Reply("later")], tmp_path) as (client, model):
            if not self.names_errors:  # nobody can tell whether it may pass
                self.fails(client, Refused, "status")
            assert client.get_response() == ("again", [])
            client.send_user_message("and?")
            shown: list[str] = []
            with refused(Refused, "status"):
                client.get_response(on_text=shown.append)
            assert shown == ["half"]
            assert len(model.requests) == 3
            assert client.get_response() == ("later", [])

    def stream_error(self, said: str, kind: str = "invalid_request_error") -> str:
        error = {"error": {"message": said, "type": kind}}
        return f"data: {json.dumps(error)}\n\n"

    def test_a_page_in_place_of_an_answer(self, tmp_path: Path, stream: bool) -> None:
        page = Fault(200, "<html>Please log in</html>", content_type="text/html; charset=utf-8")
        with self.talking([page], tmp_path, stream=stream) as (client, model):
            error = self.fails(client, NotJSON, "content_type")
            assert "Please log in" in str(error)
            assert len(model.requests) == 1

    @pytest.mark.parametrize("body", ["not json", "[1]", '{"a":', "null"])
    def test_an_answer_that_is_no_object(self, tmp_path: Path, body: str) -> None:
        with self.talking([Fault(200, body)], tmp_path) as (client, _):
            self.fails(client, NotJSON, "answer")

    @pytest.mark.parametrize("body", [{}, {"choices": 1, "message": 1, "content": 1}])
    def test_an_answer_of_another_shape(self, tmp_path: Path, body: Any) -> None:
        with self.talking([Fault(200, body)], tmp_path) as (client, _):
            self.fails(client, NotJSON, "shape")

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    def test_a_refusal_is_not_repeated(self, tmp_path: Path, status: int) -> None:
        said = {"error": {"message": f"no: {KEY} is wrong"}}
        reason = {401: "key", 403: "key", 404: "not_found"}.get(status, "status")
        with self.talking(lambda _: Fault(status, said), tmp_path) as (client, model):
            error = self.fails(client, Refused, reason)
            assert "no: *** is wrong" in str(error)
            assert error.fields["status"] == status
            assert len(model.requests) == 1

    @pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529])
    def test_what_may_pass_is_tried_again(self, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        script: list[ScriptStep] = [Fault(status), Fault(status, "down"), Reply("at last")]
        with self.talking(script, tmp_path) as (client, model):
            assert client.get_response() == ("at last", [])
            assert len({request.size for request in model.requests}) == 1
            assert len(model.requests) == 3
        assert sum("Again in" in record.getMessage() for record in logged(caplog, "orihon.llm")) == 2
        assert KEY not in caplog.text

    def test_endless_refusals_end(self, tmp_path: Path) -> None:
        with self.talking(lambda _: Fault(429), tmp_path) as (client, model):
            self.fails(client, Refused, "too_often")
            assert len(model.requests) == 1 + QUICK.retries

    def test_retry_after_is_honoured(self, tmp_path: Path) -> None:
        script: list[ScriptStep] = [Fault(429, headers={"Retry-After": "1"}), Reply("ok")]
        with self.talking(script, tmp_path) as (client, _):
            began = time.monotonic()
            assert client.get_response() == ("ok", [])
            assert time.monotonic() - began >= 1.0

    def test_a_wait_that_is_too_long_is_not_waited_for(self, tmp_path: Path) -> None:
        with self.talking([Fault(429, headers={"Retry-After": "86400"})], tmp_path) as (client, model):
            error = self.fails(client, Refused, "too_often")
            assert "86400" in str(error)
            assert len(model.requests) == 1

    def test_a_slow_server_is_left(self, tmp_path: Path, stream: bool) -> None:
        limits = Timeouts(read=0.2)
        with self.talking([Slow(600)], tmp_path, timeouts=limits, stream=stream) as (client, model):
            self.fails(client, TimedOut, "read")
            eventually(lambda: model.requests)
            assert len(model.requests) == 1

    @pytest.mark.parametrize("total", [0.0, 0.5])  # mostly over before there is a connection; in the middle
    def test_an_answer_that_drips_for_ever_is_left(self, tmp_path: Path, total: float) -> None:
        dripping = Reply("x" * 4000, piece=1, pause=0.02)
        with self.talking([dripping], tmp_path, timeouts=Timeouts(total=total)) as (client, _):
            self.fails(client, TimedOut, "total")

    def test_nobody_listens(self, tmp_path: Path) -> None:
        with self.talking([], tmp_path) as (client, model):
            model.close()
            with socket.socket() as taken:  # nobody else gets the port meanwhile
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", int(model.base_url.rpartition(":")[2])))
                self.fails(client, Unreachable, "connection")

    def test_a_server_that_comes_back_is_found_again(self, tmp_path: Path) -> None:
        """The connection that was kept from the first call is dead when the second one wants it."""
        with self.talking([Reply("one"), scripted.CutConnection(0, Fault(500)), Reply("two")], tmp_path) as (client, _):
            assert client.get_response() == ("one", [])
            client.send_user_message("and?")
            self.fails(client, CutOff, "connection")
            assert client.get_response() == ("two", [])

    @pytest.mark.parametrize(
        "step",
        [Slow(240), Reply("x" * 4800, piece=1, pause=0.05), Fault(429, headers={"Retry-After": "240"})],
        ids=["waiting", "streaming", "between attempts"],
    )
    def test_another_thread_can_end_the_call(self, tmp_path: Path, step: ScriptStep) -> None:
        with self.talking([step, Reply("later")], tmp_path) as (client, model):
            ended: list[float] = []

            def cancel() -> None:
                eventually(lambda: model.requests)
                time.sleep(0.2)  # it should be in the middle; wherever it is, it ends
                ended.append(time.monotonic())
                client.cancel()

            thread = threading.Thread(target=cancel)
            thread.start()
            self.fails(client, Cancelled, "by_caller")
            assert time.monotonic() - ended[0] < 120  # each of them would take twice as long
            thread.join()
            assert client.get_response() == ("later", [])

    def test_an_error_of_the_listener_stores_nothing(self, tmp_path: Path) -> None:
        def listener(_: str) -> None:
            raise BrokenPipeError

        with self.talking([Reply("one two three"), Reply("ok")], tmp_path) as (client, _):
            with pytest.raises(BrokenPipeError):
                client.get_response(on_text=listener)
            assert client.message_store is not None
            assert client.message_store.count_messages() == 2
            assert client.get_response() == ("ok", [])
