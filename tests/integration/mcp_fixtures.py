"""What the MCP conformance suite wants a server to have: tools, resources and prompts of fixed names.

They are added to our own server behind our own door and gate, so that what the suite proves is how ours speaks the
protocol; its capabilities for logging and subscriptions, which ours does not claim, are added for the same reason. The
suite has no way to show a token: ``OpenedServer`` shows the server's own for it, in front of the gate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from orihon.mcp.desk import Desk
from orihon.mcp.http import HistoryHttpServer
from orihon.mcp.server import HistoryServer
from orihon.web.access import Access
from orihon.web.gate import Names
from orihon.web.site import Site

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


def opened(kind: type[HistoryHttpServer]) -> type[HistoryHttpServer]:
    """The same kind of server with a token for whoever asks, shown in front of its gate."""

    class Opened(kind):  # type: ignore[valid-type, misc]
        def _application(self, site: Site, access: Access, names: Names) -> ASGIApp:
            app = super()._application(site, access, names)
            shown = (b"authorization", f"Bearer {access.token}".encode())

            async def let_in(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http":
                    scope = {**scope, "headers": [*scope["headers"], shown]}
                await app(scope, receive, send)

            return let_in

    return Opened


class _WithFixtures(HistoryHttpServer):
    def _history(self, desk: Desk) -> HistoryServer:
        return with_fixtures(super()._history(desk))


#: Ours with the fixtures.
OpenedServer = opened(_WithFixtures)


def with_fixtures(server: HistoryServer) -> HistoryServer:
    """All of them."""
    add_contents(server)
    add_talks(server)
    add_rounds(server)
    add_changes(server)
    add_resources(server)
    add_prompts(server)
    return server


# ---- contents --------------------------------------------------------------------------------------------------------


def _image() -> ImageContent:
    return ImageContent(data=PNG, mime_type="image/png")


def _embedded(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


#: A schema with the words of JSON Schema 2020-12 that have to come through as they are.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


def add_tools(server: HistoryServer, *acts: Callable[..., Any]) -> None:
    """Each under its own name, which describes it, too."""
    for act in acts:
        server.add_tool(act, act.__name__, description=act.__name__)


def add_contents(server: HistoryServer) -> None:
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    def test_image_content() -> list[ImageContent]:
        return [_image()]

    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(data=WAV, mime_type="audio/wav")]

    def test_embedded_resource() -> list[EmbeddedResource]:
        return [_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]

    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        data = '{"test": "data", "value": 123}'
        mixed = _embedded("test://mixed-content-resource", "application/json", data)
        return [TextContent(text="Multiple content types test:"), _image(), mixed]

    def test_x_mcp_header(region: _Region = "-") -> str:
        return f"region={region}"

    def json_schema_2020_12_tool() -> str:
        return "json_schema_2020_12_tool"

    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    contents = (test_simple_text, test_image_content, test_audio_content, test_embedded_resource)
    add_tools(server, *contents, test_multiple_content_types, test_error_handling, test_x_mcp_header)
    add_tools(server, json_schema_2020_12_tool)
    tool = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert tool is not None
    tool.parameters = SCHEMA


# ---- talking back ----------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def _titled(**titles: str) -> list[Any]:
    return [{"const": value, "title": title} for value, title in titles.items()]


class Enums(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled(low="Low", medium="Medium", high="High")})
    untitledMulti: list[str] = Field(
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}}
    )
    titledMulti: list[str] = Field(
        json_schema_extra={"items": {"anyOf": _titled(feature="New", bug="Bug", docs="Docs")}}
    )
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["small", "medium", "large"], "enumNames": ["Small", "Medium", "Large"]}
    )


def add_talks(server: HistoryServer) -> None:
    async def log(ctx: Context, said: str) -> None:
        await ctx.request_context.session.send_log_message("info", said, related_request_id=ctx.request_id)

    async def test_tool_with_logging(ctx: Context) -> str:
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await log(ctx, said)
        return "Tool with logging executed successfully"

    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        return "Tool with progress executed successfully"

    async def test_sampling(prompt: str, ctx: Context) -> str:
        asked = [SamplingMessage(role="user", content=TextContent(text=prompt))]
        said = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {said.content.text if said.content.type == 'text' else ''}"

    async def answered(ctx: Context, message: str, schema: type[BaseModel], said: str) -> str:
        found = await ctx.elicit(message=message, schema=schema)
        content = found.data.model_dump_json() if found.action == "accept" else "{}"
        return f"{said}: action={found.action}, content={content}"

    async def test_elicitation(message: str, ctx: Context) -> str:
        return await answered(ctx, message, Answer, "User response")

    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        return await answered(ctx, "Who are you?", Defaults, "Elicitation completed")

    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        return await answered(ctx, "Which?", Enums, "Elicitation completed")

    async def test_missing_capability(ctx: Context) -> str:
        declared = ctx.session.client_capabilities
        if declared is None or declared.sampling is None:
            needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", needed)
        return "The client can sample."

    add_tools(server, test_tool_with_logging, test_tool_with_progress, test_sampling, test_elicitation)
    add_tools(server, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums, test_missing_capability)


# ---- rounds of questions ---------------------------------------------------------------------------------------------


def _asked(message: str, field: str, kind: Literal["string", "boolean"] = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampled(said: str) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=TextContent(text=said))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=100))


def _said(ctx: Context, name: str, field: str) -> str | None:
    answer = (ctx.input_responses or {}).get(name)
    if not isinstance(answer, ElicitResult) or not answer.content:
        return None
    return str(answer.content.get(field))


def named(act: Callable[..., Any], what: str) -> Callable[..., Any]:
    act.__name__ = f"test_input_required_result_{what}"
    return act


def add_rounds(server: HistoryServer) -> None:
    def single(what: str, name: str, request: InputRequest, done: str) -> Any:
        async def ask(ctx: Context) -> str | InputRequiredResult:
            if name in (ctx.input_responses or {}):
                return done.format(said=_said(ctx, name, "name"))
            return InputRequiredResult(input_requests={name: request})

        return named(ask, what)

    name = _asked("What is your name?", "name")
    asked = single("elicitation", "user_name", name, "Hello, {said}!")
    capital = single("sampling", "capital_question", _sampled("What is the capital of France?"), "It was said.")
    add_tools(server, asked, capital, single("list_roots", "client_roots", ListRootsRequest(), "They are known."))

    async def request_state(ctx: Context) -> str | InputRequiredResult:
        if "confirm" in (ctx.input_responses or {}) and ctx.request_state == "nonce":
            return "state-ok: confirmation received"
        return InputRequiredResult(input_requests={"confirm": _asked("Sure?", "ok", "boolean")}, request_state="nonce")

    async def multiple_inputs(ctx: Context) -> str | InputRequiredResult:
        wanted: dict[str, InputRequest] = {
            "user_name": name,
            "greeting": _sampled("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        if wanted.keys() <= (ctx.input_responses or {}).keys():
            return "All inputs received."
        return InputRequiredResult(input_requests=wanted, request_state="several")

    async def multi_round(ctx: Context) -> str | InputRequiredResult:
        state = json.loads(ctx.request_state or "{}")
        first, second = _said(ctx, "step1", "name"), _said(ctx, "step2", "color")
        if state.get("round") == 2 and second is not None:
            return f"{state['name']} likes {second}."
        if state.get("round") == 1 and first is not None:
            kept = json.dumps({"round": 2, "name": first})
            asked = _asked("Step 2: What is your favorite color?", "color")
            return InputRequiredResult(input_requests={"step2": asked}, request_state=kept)
        asked = _asked("Step 1: What is your name?", "name")
        return InputRequiredResult(input_requests={"step1": asked}, request_state=json.dumps({"round": 1}))

    async def tampered_state(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is not None:
            return f"state-ok: {ctx.request_state}"
        return InputRequiredResult(input_requests={"confirm": _asked("Sure?", "ok", "boolean")}, request_state="one")

    async def capabilities(ctx: Context) -> InputRequiredResult:
        declared = ctx.client_capabilities
        wanted: dict[str, InputRequest] = {}
        if declared is None or declared.sampling is not None:
            wanted["sample"] = _sampled("Say hello")
        if declared is None or declared.elicitation is not None:
            wanted["ask"] = name
        return InputRequiredResult(input_requests=wanted, request_state="by capability")

    for act in (request_state, multiple_inputs, multi_round, tampered_state, capabilities):
        add_tools(server, named(act, act.__name__))


# ---- changes of lists ------------------------------------------------------------------------------------------------


def add_changes(server: HistoryServer) -> None:
    def passing() -> str:
        return "dynamic"

    async def test_trigger_tool_change(ctx: Context) -> str:
        server.add_tool(passing)
        server.remove_tool("passing")
        await ctx.notify_tools_changed()
        return "tool list changed"

    async def test_trigger_prompt_change(ctx: Context) -> str:
        server.add_prompt(Prompt.from_function(passing, name="passing"))
        server.remove_prompt("passing")
        await ctx.notify_prompts_changed()
        return "prompt list changed"

    add_tools(server, test_trigger_tool_change, test_trigger_prompt_change)


# ---- resources and prompts -------------------------------------------------------------------------------------------


def add_resources(server: HistoryServer) -> None:
    def text() -> str:
        return "This is the content of the static text resource."

    def binary() -> bytes:
        return b"\x89PNG"

    def template(id: str) -> str:  # noqa: A002 - the suite calls it so
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    server.resource("test://static-text")(text)
    server.resource("test://static-binary", mime_type="image/png")(binary)
    server.resource("test://template/{id}/data", mime_type="application/json")(template)
    server.resource("test://watched-resource", name="watched")(text)

    async def done(_ctx: ServerRequestContext[Any, Any], _params: Any) -> EmptyResult:
        return EmptyResult()

    for method, parameters in (
        ("logging/setLevel", SetLevelRequestParams),
        ("resources/subscribe", SubscribeRequestParams),
        ("resources/unsubscribe", UnsubscribeRequestParams),
    ):
        server._lowlevel_server.add_request_handler(method, parameters, done)


def add_prompts(server: HistoryServer) -> None:
    def test_simple_prompt() -> list[UserMessage]:
        return [UserMessage("This is a simple prompt for testing.")]

    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        embedded = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(embedded), UserMessage("Please process the embedded resource above.")]

    def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]

    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        said = _said(ctx, "user_context", "context")
        if said is not None:
            return [UserMessage(f"Use the following context: {said}")]
        return InputRequiredResult(input_requests={"user_context": _asked("Which context?", "context")})

    plain: tuple[Callable[..., Any], ...] = (test_simple_prompt, test_prompt_with_arguments, test_prompt_with_image)
    others: tuple[Callable[..., Any], ...] = (test_prompt_with_embedded_resource, test_input_required_result_prompt)
    for act in (*plain, *others):
        server.prompt(description=act.__name__)(act)
