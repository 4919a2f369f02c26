"""How often the token may be guessed: by address, and by everybody together.

Tokens have 32 characters and more, which is what makes guessing hopeless; this tells those who try to slow down. Only
wrong tokens are refused: the right one is never kept out. It counts in one process; several let as many times more
through. Addresses that have not failed lately share a few tries a second, while all the others must wait.
"""

import ipaddress
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

ADDRESS_TRIES, ADDRESS_TRIES_PER_S = 10, 1 / 6
ALL_TRIES, ALL_TRIES_PER_S = 200, 2.0
NEW_TRIES, NEW_TRIES_PER_S = 20, 5.0
MAX_ADDRESSES = 10_000


@dataclass
class TokenBucket:
    """Tries that are left; they come back with time."""

    capacity: float
    refill_per_s: float
    tokens: float
    updated_at: float

    def wait_s(self, now: float) -> float:
        """Seconds until there is a try; 0 where there is one."""
        self.tokens = min(self.capacity, self.tokens + (now - self.updated_at) * self.refill_per_s)
        self.updated_at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.refill_per_s

    def take(self, now: float) -> None:
        """Use a try up."""
        self.wait_s(now)
        self.tokens = max(0.0, self.tokens - 1)


class Throttle:
    """Wrong tokens, counted. Safe to share between threads."""

    def __init__(self, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        self._all = TokenBucket(ALL_TRIES, ALL_TRIES_PER_S, ALL_TRIES, now)
        self._new = TokenBucket(NEW_TRIES, NEW_TRIES_PER_S, NEW_TRIES, now)
        self._addresses: OrderedDict[str, TokenBucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str, now: float | None = None) -> float:
        """How long somebody at `address` who gave a wrong token must wait; 0 for not at all."""
        now = time.monotonic() if now is None else now
        with self._lock:
            known = self._addresses.get(_network(address))
            own = known.wait_s(now) if known else 0.0
            together = self._all.wait_s(now)
            if own or not together:
                return own
            failed_lately = known is not None and known.tokens < known.capacity
            return together if failed_lately else self._new.wait_s(now)

    def record_failure(self, address: str, now: float | None = None) -> None:
        """A wrong token came from there."""
        now = time.monotonic() if now is None else now
        network = _network(address)
        with self._lock:
            bucket = self._addresses.pop(network, None) or TokenBucket(
                ADDRESS_TRIES, ADDRESS_TRIES_PER_S, ADDRESS_TRIES, now
            )
            self._addresses[network] = bucket
            bucket.take(now)
            if self._all.wait_s(now):
                self._new.take(now)
            self._all.take(now)
            while len(self._addresses) > MAX_ADDRESSES:
                self._addresses.popitem(last=False)


def _network(address: str) -> str:
    """Who counts as one: an IPv4 address, or the IPv6 network that one customer has."""
    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip_address, ipaddress.IPv6Address):
        if ip_address.ipv4_mapped is not None:
            return str(ip_address.ipv4_mapped)
        return str(ipaddress.ip_network((ip_address, 64), strict=False))
    return str(ip_address)
