"""The clients that ``orihon wrap`` knows: how each is pointed at an address by its environment and arguments alone.

Everything here was seen in what the clients really send; where one needs more than variables, the reason stands beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orihon.system import jsonio

Environment = Mapping[str, str]
TOKEN_VARIABLE = "ORIHON_PROXY_TOKEN"  # noqa: S105 - its name
_LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a client shall speak to: the OpenAI wires with their version, the Anthropic one without."""

    proxy: str  # without a path
    token: str | None
    way: str  # of the path, what tells this wrap from others
    openai_upstream: str | None = None  # as the person has named it; otherwise the settings'
    anthropic_upstream: str | None = None

    @property
    def openai(self) -> str:
        return self.through(self.openai_upstream) if self.openai_upstream else f"{self._root}/v1"

    @property
    def anthropic(self) -> str:
        return self.through(self.anthropic_upstream) if self.anthropic_upstream else self._root

    @property
    def openai_without_token(self) -> str:
        """For what everybody may read."""
        return self.openai.replace(f"/t/{self.token}", "", 1)

    def through(self, upstream: str) -> str:
        """An upstream, by way of the proxy."""
        return f"{self._root}/to/{upstream.rstrip('/')}"

    @property
    def _root(self) -> str:
        return self.proxy + (f"/t/{self.token}" if self.token else "") + self.way


@dataclass(frozen=True, slots=True)
class Client:
    """One client. What is in ``settles`` is set only where the person has not."""

    name: str
    programs: tuple[str, ...]
    openai: tuple[str, ...] = ()
    anthropic: tuple[str, ...] = ()
    where_set: tuple[str, ...] = ()  # the address in it is reached through us
    names_sessions: bool = False  # does it send an id for each conversation?
    settles: Mapping[str, str] = field(default_factory=dict)
    also: Callable[[Addresses, Environment], dict[str, str]] | None = None
    also_sets: tuple[str, ...] = ()
    arguments: Callable[[Addresses, Environment], list[str]] | None = None
    #: Variables by which it speaks to somebody else altogether, whatever its address is.
    past_us: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """All that may be set for it."""
        return (*self.openai, *self.anthropic, *self.where_set, *self.also_sets, *self.settles)

    @property
    def openai_upstreams(self) -> tuple[str, ...]:
        """Variables in which the person may have named a provider, the one that counts first."""
        return self.openai or (() if self.also is None else _OPENAI)

    @property
    def anthropic_upstreams(self) -> tuple[str, ...]:
        return self.anthropic or (() if self.also is None else _ANTHROPIC)

    def upstream(self, address: str) -> dict[str, str]:
        """A provider as its variables would name it: with a version, or its own path, for the OpenAI wires alone."""
        bare = address.rstrip("/").removesuffix("/v1")
        openai = f"{bare}/v1" if not urlsplit(bare).path else address
        return dict.fromkeys(self.openai_upstreams, openai) | dict.fromkeys(self.anthropic_upstreams, bare)

    def environment(self, addresses: Addresses, given: Environment) -> dict[str, str]:
        """What is different in its environment."""
        made = {name: value for name, value in self.settles.items() if name not in given}
        made |= dict.fromkeys(self.openai, addresses.openai) | dict.fromkeys(self.anthropic, addresses.anthropic)
        made |= {name: addresses.through(given[name]) for name in self.where_set if given.get(name)}
        made |= {} if self.also is None else self.also(addresses, given)
        return made | _not_through_other_proxies(given)


def _not_through_other_proxies(given: Environment) -> dict[str, str]:
    """Where requests go through a proxy of the network, those to this machine must not."""
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in given):
        return {}
    before = given.get("no_proxy") or given.get("NO_PROXY") or ""
    hosts = [host.strip() for host in before.split(",") if host.strip()]
    said = ",".join([*hosts, *(host for host in _LOCAL if host not in hosts)])
    return {"NO_PROXY": said, "no_proxy": said}


# ---- codex -----------------------------------------------------------------------------------------------------------


def _codex_arguments(addresses: Addresses, given: Environment) -> list[str]:
    """It reads no address from its environment. A provider of its own also keeps it from trying WebSockets first.

    Arguments are for everybody on the machine to read: the token comes in a header, from a variable.
    """
    has_key = "OPENAI_API_KEY" in given
    provider = {
        "name": '"Orihon"',
        "base_url": jsonio.encode(addresses.openai_without_token).decode(),
        "wire_api": '"responses"',
        "env_http_headers": f'{{"x-orihon-token"="{TOKEN_VARIABLE}"}}',
        **({"env_key": '"OPENAI_API_KEY"'} if has_key else {"requires_openai_auth": "true"}),
    }
    said = ",".join(f"{name}={value}" for name, value in provider.items())
    return ["-c", 'model_provider="orihon"', "-c", f"model_providers.orihon={{{said}}}"]


def _codex_variables(addresses: Addresses, _: Environment) -> dict[str, str]:
    return {TOKEN_VARIABLE: addresses.token or "-"}


# ---- opencode --------------------------------------------------------------------------------------------------------

_OPENCODE = "OPENCODE_CONFIG_CONTENT"


def _opencode_variables(addresses: Addresses, given: Environment) -> dict[str, str]:
    """Its providers have their addresses in its configuration, a piece of which a variable may hold.

    Of a provider whose key is in the environment it is known that it is wanted; without any, both get the address: to
    name a provider that has no key could make it the one that OpenCode begins with.
    """
    keys = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    wanted = [name for name, key in keys.items() if key in given] or list(keys)
    places = {"openai": addresses.openai, "anthropic": _with_version(addresses.anthropic)}
    made = {"provider": {name: {"options": {"baseURL": places[name]}} for name in wanted}}
    try:
        before = jsonio.decode(given.get(_OPENCODE, "{}").encode())
    except ValueError:
        before = {}  # OpenCode would not have read it, either
    merged: dict[str, Any] = dict(before) if isinstance(before, dict) else {}
    _merge(merged, made)
    return {_OPENCODE: jsonio.encode(merged).decode()}


def _with_version(address: str) -> str:
    return address if address.endswith("/v1") else f"{address}/v1"


def _merge(into: MutableMapping[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        there = into.get(name)
        if isinstance(there, dict) and isinstance(value, Mapping):
            into[name] = dict(there)
            _merge(into[name], value)
        else:
            into[name] = value


# ---- all of them -----------------------------------------------------------------------------------------------------

_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_BASE_URL",)
#: LiteLLM has a name of its own for the same.
_LITELLM = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")

CLIENTS = (
    # X-Claude-Code-Session-Id in each request. On Bedrock, Vertex and Foundry it speaks no wire of ours.
    Client(
        "claude",
        ("claude",),
        anthropic=_ANTHROPIC,
        names_sessions=True,
        past_us=("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    ),
    # session-id and prompt_cache_key in each request.
    Client(
        "codex",
        ("codex",),
        names_sessions=True,
        also=_codex_variables,
        also_sets=(TOKEN_VARIABLE,),
        arguments=_codex_arguments,
    ),
    # x-session-affinity in each request.
    Client("opencode", ("opencode",), names_sessions=True, also=_opencode_variables, also_sets=(_OPENCODE,)),
    # No id; it would have the model summarize its history beside each turn, and send that instead.
    Client(
        "aider", ("aider",), openai=_OPENAI, anthropic=_LITELLM, settles={"AIDER_MAX_CHAT_HISTORY_TOKENS": "1000000"}
    ),
    # No id.
    Client("mini", ("mini", "mini-swe-agent", "mini-extra"), openai=_OPENAI, anthropic=_LITELLM),
    # x-litellm-session-id in each request. Its own variable counts for it only where the person has set one.
    Client(
        "openhands",
        ("openhands",),
        openai=_OPENAI,
        anthropic=_LITELLM,
        where_set=("LLM_BASE_URL",),
        names_sessions=True,
    ),
    # No id; the OpenAI SDK reads the variable where the model is given no address.
    Client("smolagents", ("smolagent", "webagent"), openai=_OPENAI, anthropic=_ANTHROPIC),
)
_ANY = Client("", (), openai=_OPENAI, anthropic=_ANTHROPIC)


def client_for(word: str) -> Client:
    """The client of that name, or whose program it is; any other program gets the variables that SDKs read."""
    bare = Path(word).name
    for client in CLIENTS:
        if word == client.name or bare in client.programs:
            return client
    return _ANY


def programs_of(word: str, client: Client) -> Sequence[str]:
    """What to look for in the path, in this order."""
    return client.programs if word == client.name else (word,)
