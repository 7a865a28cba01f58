"""Which addresses a tenant may lead us to."""

from __future__ import annotations

import ipaddress


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Of the public network: not private, loopback, link-local (a cloud's metadata) or multicast, also in IPv6's clothes."""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return is_public(mapped)
    return address.is_global and not address.is_multicast
