"""Addresses at which a cloud hands out credentials to whoever asks: no notice goes there unless it is allowed.

Looked at when the connection stands, so that no name can mean one address in the check and another one afterwards.
"""

from __future__ import annotations

import ipaddress
import socket

#: Link-local addresses, where most providers keep the metadata of a machine, and those of the others.
METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
    )
)


class MetadataAddress(OSError):
    """The address is one of those."""

    def __init__(self) -> None:
        super().__init__(0, "a metadata address; see notifications.allow_metadata")


def is_metadata(address: str) -> bool:
    """Is this an address at which credentials may be had? ``address`` as ``getpeername`` gives it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return any((mapped or found) in network for network in METADATA)


def refuse_metadata(connection: socket.socket) -> None:
    """Close a connection that has come to such an address, before anything is sent."""
    if connection.family in (socket.AF_INET, socket.AF_INET6) and is_metadata(connection.getpeername()[0]):
        connection.close()
        raise MetadataAddress
