"""Encryption of secrets from a browser to a worker: only the worker has the key, and they expire.

A box of encrypted secrets has a version, an ephemeral public key, the expiry time, and the secrets, encrypted with
ChaCha20-Poly1305 (RFC 8439). The encryption key is derived with HKDF-SHA256 (RFC 5869) from the X25519 shared secret
(RFC 7748) of the ephemeral key pair and the worker's, and both public keys. The subject and the expiry time are
authenticated: a box cannot be used for another job or longer. Its content is padded, so its length reveals little.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION = b"\x01"
PURPOSE = b"perfloom: secrets for a worker, version 1"
PADDING_BYTES = 512
_HEADER = struct.Struct(">c32sd")
# Each key encrypts only one box, so a constant nonce is safe.
_NONCE = bytes(12)


class SealedBoxError(ValueError):
    """A box is for another key or subject, damaged, or expired."""


@dataclass(frozen=True)
class KeyPair:
    """The key pair of a worker. Only in memory; repr() and str() do not show it."""

    _private: X25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> "KeyPair":
        """A new key pair."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> "KeyPair":
        """The reverse of `to_bytes`. Raises ValueError."""
        return cls(X25519PrivateKey.from_private_bytes(data))

    def to_bytes(self) -> bytes:
        """The private key, 32 bytes, for a child process."""
        return self._private.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    @property
    def key_id(self) -> str:
        """The id of the key pair, a hash of the public key."""
        return key_id(self.public)

    def open(self, sealed: bytes, subject: str, now: float) -> dict[str, str]:
        """The secrets in a box that was encrypted to this pair. Raises SealedBoxError."""
        try:
            version, there, expires = _HEADER.unpack(sealed[: _HEADER.size])
            if version != VERSION:
                raise SealedBoxError("the encrypted box has an unknown version")
            key = _box_key(self._private, there, there, self.public)
            plain = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_HEADER.size :], _bound(sealed, subject))
        except (struct.error, InvalidTag, ValueError) as error:
            if isinstance(error, SealedBoxError):
                raise
            # Neither the box nor the reason: logs must not contain either.
            raise SealedBoxError("the box is encrypted for another key or purpose, or damaged") from None
        if now >= expires:
            raise SealedBoxError("the encrypted box is too old")
        return {str(name): str(value) for name, value in json.loads(plain).items()}


def key_id(public: bytes) -> str:
    """The id of a public key."""
    return hashlib.sha256(public).hexdigest()[:16]


def seal(public: bytes, secrets: Mapping[str, str], subject: str, expires: float) -> bytes:
    """Encrypt secrets (by the names of their prompts) to a worker's public key, for a subject such as "job:<id>".

    expires: seconds since the epoch. Raises ValueError if `public` is not a valid key.
    """
    once = X25519PrivateKey.generate()
    mine = once.public_key().public_bytes_raw()
    header = _HEADER.pack(VERSION, mine, expires)
    plain = json.dumps(dict(secrets)).encode()
    plain += b" " * (-len(plain) % PADDING_BYTES)
    key = _box_key(once, public, mine, public)
    return header + ChaCha20Poly1305(key).encrypt(_NONCE, plain, _bound(header, subject))


def _box_key(private: X25519PrivateKey, other: bytes, once: bytes, worker: bytes) -> bytes:
    shared = private.exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(hashes.SHA256(), 32, salt=once + worker, info=PURPOSE).derive(shared)


def _bound(header: bytes, subject: str) -> bytes:
    return header[: _HEADER.size] + subject.encode()
