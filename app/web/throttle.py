"""Rate limit of wrong tokens: by address, and in total.

Tokens have at least 32 characters, so guessing is infeasible; the limit slows down attempts. Only wrong tokens are
rejected: the right one is always accepted. Each process counts separately. Addresses without recent failures share a
few attempts per second, while all others must wait.
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
    """Remaining attempts, refilled over time (token bucket)."""

    capacity: float
    refill_per_s: float
    tokens: float
    updated_at: float

    def wait_s(self, now: float) -> float:
        """Seconds until the next attempt; 0 if one is available."""
        self.tokens = min(self.capacity, self.tokens + (now - self.updated_at) * self.refill_per_s)
        self.updated_at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.refill_per_s

    def take(self, now: float) -> None:
        """Use one attempt."""
        self.wait_s(now)
        self.tokens = max(0.0, self.tokens - 1)


class Throttle:
    """Counts wrong tokens. Thread-safe."""

    def __init__(self, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        self._all = TokenBucket(ALL_TRIES, ALL_TRIES_PER_S, ALL_TRIES, now)
        self._new = TokenBucket(NEW_TRIES, NEW_TRIES_PER_S, NEW_TRIES, now)
        self._addresses: OrderedDict[str, TokenBucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str, now: float | None = None) -> float:
        """How long `address` must wait after a wrong token; 0 if not at all."""
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
        """Count a wrong token from this address."""
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
    """The unit of counting: an IPv4 address, or the IPv6 network of a customer."""
    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip_address, ipaddress.IPv6Address):
        if ip_address.ipv4_mapped is not None:
            return str(ip_address.ipv4_mapped)
        return str(ipaddress.ip_network((ip_address, 64), strict=False))
    return str(ip_address)
