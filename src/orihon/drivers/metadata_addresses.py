"""Addresses at which a cloud hands out credentials to whoever asks: nothing is sent there unless it is allowed.

Looked at when the connection stands, so that no name can mean one address in the check and another one afterwards. A
connection to a proxy shows the proxy alone: what the address says by itself is therefore looked at, too.
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
        "fd20:ce::/32",
        "fd00:c1::/32",
        "fd00:42::/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
    )
)

#: IPv6 addresses that end in an IPv4 address: compatible ones, and those of translators (NAT64).
_ENDING_IN_IPV4 = (ipaddress.ip_network("::/96"), ipaddress.ip_network("64:ff9b::/96"))
_NAMES = ("metadata.google.internal", "metadata.goog", "instance-data.ec2.internal")


def is_metadata(address: str) -> bool:
    """Is this an address at which credentials may be had? ``address`` as ``getpeername`` gives it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    meant = (found, _within(found)) if isinstance(found, ipaddress.IPv6Address) else (found,)
    return any(one in network for one in meant if one is not None for network in METADATA)


def _within(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that stands inside of this one."""
    if any(found in network for network in _ENDING_IN_IPV4):
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour


def names_metadata(host: str | None) -> bool:
    """Does an address name such a place by itself, however its number is written (decimal, octal, short)?"""
    plain = (host or "").rstrip(".").lower()
    try:
        return plain in _NAMES or is_metadata(socket.inet_ntoa(socket.inet_aton(plain)))
    except (OSError, ValueError):  # no IPv4 address in any form
        pass
    try:
        return is_metadata(plain)
    except ValueError:
        return False
