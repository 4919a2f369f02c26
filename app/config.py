"""Settings with their defaults. No other module reads the environment for these.

Each setting is one field of `Settings` with one line of documentation, and is set by the environment variable
`PERFLOOM_<NAME>` or an option of a command; a secret also by a file whose path is in `PERFLOOM_<NAME>_FILE`. `SETTINGS`
lists them all.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .domain.errors import InvalidRequest
from .paths import data_directory, make_private, network_filesystem, read_or_create_secret, runtime_directory
from .secret_settings import SECRETS, secret_paths, with_secrets
from .setting_values import (
    parse_broker,
    parse_bytes,
    parse_database,
    parse_flag,
    parse_formulas,
    parse_host,
    parse_hosts,
    parse_int,
    parse_path,
    parse_patterns,
    parse_site,
    parse_sites,
    parse_text,
    parse_token,
)

if TYPE_CHECKING:
    from .domain.formulas.formula import Formula

PREFIX = "PERFLOOM_"
MIN_SECRET_CHARACTERS = 32
"""Characters of a token or key."""
DATA_DIRECTORY_NAMES = ("catalogue.sqlite", "token", "secret", "results", "jobs", "lost+found")
"""A directory with one of these names is recognized as a data directory."""


def _about(
    doc: str, parse: Callable[[str], Any], *, name: str = "", secret: bool = False, default: str = ""
) -> dict[str, Any]:
    """Metadata of a setting. `default`: a description, if it is computed."""
    return {"doc": doc, "parse": parse, "name": name, "secret": secret, "default": default}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting. Created by `Settings.load`; does not touch the disk before `prepare` or the use of a secret."""

    data: Path = field(
        metadata=_about(
            "Directory of all data: database, results, jobs, token.",
            parse_path,
            default="$XDG_DATA_HOME/perfloom",
        ),
    )
    runtime: Path = field(
        metadata=_about(
            "Directory of sockets and of the private Redis. Its path must be short.",
            parse_path,
            default="perfloom-… in $XDG_RUNTIME_DIR, else in /tmp",
        ),
    )
    host: str = field(
        default="127.0.0.1",
        metadata=_about("Address that the web server listens on.", parse_host),
    )
    port: int = field(
        default=8000,
        metadata=_about("Port that the web server listens on; 0 uses a free one.", parse_int(0, 65535, 8000)),
    )
    trusted_hosts: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Host names that requests may use, separated by commas.",
            parse_hosts,
            default="PERFLOOM_HOST; if that is every address, also the machine's own name",
        ),
    )
    database_url: str = field(
        repr=False,
        metadata=_about(
            "Database of jobs and results: an SQLite or PostgreSQL URL.",
            parse_database,
            secret=True,
            default="an SQLite file in the data directory",
        ),
    )
    broker_url: str = field(
        repr=False,
        metadata=_about(
            "Message broker between web server and workers: a Redis URL.",
            parse_broker,
            secret=True,
            default="a private Redis, started and ended by perfloom serve",
        ),
    )
    configured_token: str | None = field(
        default=None,
        repr=False,
        metadata=_about(
            "Token that a browser or script must present.",
            parse_token,
            name="token",
            secret=True,
            default="random, stored in the file token",
        ),
    )
    configured_secret_key: str | None = field(
        default=None,
        repr=False,
        metadata=_about(
            "Key that signs cookies; must be the same on all machines of an installation.",
            parse_token,
            name="secret_key",
            secret=True,
            default="random, stored in the file secret",
        ),
    )
    upload_limit_bytes: int = field(
        default=20 * 10**9,
        metadata=_about("Maximum size of an import, uncompressed.", parse_bytes, default="20GB"),
    )
    reserve_bytes: int = field(
        default=10**9,
        metadata=_about("Disk space that imports and recordings leave free.", parse_bytes, default="1GB"),
    )
    cache_bytes: int = field(
        default=5 * 10**9,
        metadata=_about("Disk space for data that can be computed again from results.", parse_bytes, default="5GB"),
    )
    binary_cache_bytes: int = field(
        default=5 * 10**9,
        metadata=_about(
            "Disk space for binaries and source files from recording hosts, and for what was read of binaries, for "
            "[source lines](../how-to/source.md).",
            parse_bytes,
            default="5GB",
        ),
    )
    debuginfod_urls: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Servers of debuginfod, separated by spaces or commas, from which a worker fetches what is missing for "
            "[source lines](../how-to/source.md#debuginfod). They see the build ids of recordings.",
            parse_sites,
            default="none",
        ),
    )
    read_memory_bytes: int = field(
        default=8 * 10**9,
        metadata=_about("Memory limit for reading one recording.", parse_bytes, default="8GB"),
    )
    read_seconds: int = field(
        default=3600,
        metadata=_about("Time limit in seconds for reading one recording.", parse_int(1, 10**6, 3600)),
    )
    read_cpu_seconds: int = field(
        default=120,
        metadata=_about(
            "CPU time limit for reading one recording: this many seconds, plus a tenth of that for each MB of its "
            "files, before decompression. So files that decompress to very much more are rejected early.",
            parse_int(1, 10**6, 120),
        ),
    )
    buildid_dir: Path = field(
        metadata=_about(
            "Directory where perf finds binaries and symbols by build id when it reads perf.data; otherwise it uses "
            "their original paths.",
            parse_path,
            default="~/.debug, as in perf",
        ),
    )
    perf_script: bool = field(
        default=False,
        metadata=_about(
            "1 lets `perf script` read every perf.data file, also those that are "
            "[read without it](../formats/perf-data.md#how-it-is-read).",
            parse_flag,
            default="0",
        ),
    )
    recordings_at_once: int = field(
        default=2,
        metadata=_about(
            "Recordings that run at the same time on one machine; others wait, because they would disturb each other.",
            parse_int(1, 1000, 2),
        ),
    )
    reads_at_once: int = field(
        default=2,
        metadata=_about("Recordings that a worker reads at the same time.", parse_int(1, 100, 2)),
    )
    read_short_seconds: int = field(
        default=10,
        metadata=_about(
            "Seconds after which reading a recording counts as long. If PERFLOOM_READS_AT_ONCE is more than 1, one "
            "place is reserved for short ones.",
            parse_int(1, 10**6, 10),
        ),
    )
    unreachable_seconds: int = field(
        default=7 * 86400,
        metadata=_about(
            "Seconds that a job waits for an unreachable target before it counts as lost.",
            parse_int(1, 10**9, 7 * 86400),
            default="604800 (7 days)",
        ),
    )
    run_as: str = field(
        default="",
        metadata=_about(
            "User of this machine that recorded programs run as, if they must not run as the worker's own user.",
            parse_text,
            default="the worker's own user",
        ),
    )
    trust_users: bool = field(
        default=False,
        metadata=_about(
            "1 allows anyone with the token to run programs as the server's own user, who can read its secrets.",
            parse_flag,
            default="0",
        ),
    )
    waiting_functions: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "More functions that wait, in addition to [the list](waiting-functions.md): regular expressions of "
            "complete names of functions or of file names of libraries, separated by semicolons.",
            parse_patterns,
            default="none",
        ),
    )
    formulas: "tuple[Formula, ...]" = field(
        default=(),
        metadata=_about(
            "A TOML file of more [formulas](formulas.md), which take precedence over built-in ones of the same name.",
            parse_formulas,
            default="none",
        ),
    )
    perfetto_url: str = field(
        default="https://ui.perfetto.dev",
        metadata=_about("URL of Perfetto's UI for *Open in*: its own site, or one of yours.", parse_site),
    )
    speedscope_url: str = field(
        default="https://www.speedscope.app",
        metadata=_about("URL of speedscope for *Open in*: its own site, or one of yours.", parse_site),
    )
    network_data: bool = field(
        default=False,
        metadata=_about(
            "1 allows data on a network filesystem; only for one machine, and slower.",
            parse_flag,
            default="0",
        ),
    )

    @classmethod
    def load(
        cls, data: Path | str | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
    ) -> "Settings":
        """From overrides (by setting name; None: not set), else the environment, else the defaults.

        Raises InvalidRequest, with the permitted values, for an invalid value.
        """
        environ = with_secrets(os.environ if environ is None else environ, SECRETS)
        overrides = {"data": data} | overrides
        unknown = set(overrides) - {setting.name for setting in SETTINGS}
        if unknown:
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        values: dict[str, Any] = {}
        for setting in SETTINGS:
            override = overrides.get(setting.name)
            from_environment = environ.get(setting.variable) or None
            if override is not None:
                # Options arrive parsed or as text; text passes the same checks.
                values[setting.field] = (
                    setting.parse_value(override, setting.name) if isinstance(override, str) else override
                )
            elif from_environment is not None:
                values[setting.field] = setting.parse_value(from_environment, setting.variable)
        values["data"] = Path(values["data"]).absolute() if "data" in values else data_directory(environ)
        values.setdefault("buildid_dir", Path(environ.get("HOME") or os.devnull, ".debug"))
        values.setdefault("runtime", runtime_directory(values["data"], environ))
        values.setdefault("database_url", f"sqlite:///{values['data'] / 'catalogue.sqlite'}")
        values.setdefault("broker_url", f"redis+socket://{values['runtime'] / 'redis.sock'}")
        return cls(**values)

    @property
    def uses_sqlite(self) -> bool:
        """Whether the database is SQLite."""
        return self.database_url.startswith("sqlite:")

    @property
    def database_file(self) -> Path | None:
        """The file of an SQLite database, None for PostgreSQL."""
        return Path(self.database_url.partition("///")[2].partition("?")[0]) if self.uses_sqlite else None

    @property
    def storage_directories(self) -> tuple[Path, ...]:
        """Directories of this machine with data and database."""
        return (self.data,) if self.database_file is None else (self.data, self.database_file.parent)

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The files with secrets: in the data directory, the database, and those named in the environment."""
        paths = [self.data / "token", self.data / "secret", self.data / "catalogue.sqlite"]
        if self.database_file is not None:
            paths.append(self.database_file)
        paths += map(Path, secret_paths(SECRETS))
        return tuple(dict.fromkeys(path.absolute() for path in paths))

    @property
    def redis_socket(self) -> Path:
        """Where the private Redis listens."""
        return self.runtime / "redis.sock"

    @property
    def uses_private_broker(self) -> bool:
        """Whether the broker is the private Redis, which `perfloom serve` starts and ends."""
        return self.broker_url == f"redis+socket://{self.redis_socket}"

    @property
    def token(self) -> str:
        """The access token; created in `<data>/token` (0600) at its first use."""
        return self.configured_token or self._stored_secret("token")

    @property
    def cookie_key(self) -> bytes:
        """32 bytes to sign cookies with. Derived from the token too, so that changing it ends every session."""
        secret = self.configured_secret_key or self._stored_secret("secret")
        return hmac.digest(secret.encode(), b"cookie\0" + self.token.encode(), hashlib.sha256)

    def prepare(self) -> tuple[str, ...]:
        """Create the data directory (0700) and its subdirectories. Returns warnings, each a sentence.

        Raises InvalidRequest or Unavailable if the directory cannot be used.
        """
        warnings = []
        make_private(self.data, known=DATA_DIRECTORY_NAMES)
        filesystem = network_filesystem(self.data)
        if filesystem and self.uses_sqlite and not self.network_data:
            raise InvalidRequest(
                f"{self.data} is on a network filesystem ({filesystem}), where an SQLite database can be damaged. "
                f"Set {PREFIX}DATA to a directory on a local disk, or {PREFIX}DATABASE_URL to a PostgreSQL database, "
                f"or {PREFIX}NETWORK_DATA=1 if only this machine uses the directory.",
                "data",
            )
        if filesystem:
            warnings.append(f"{self.data} is on a network filesystem ({filesystem}); opening results is slower there.")
        for name in ("results", "jobs", "cache", "uploads"):
            make_private(self.data / name)
        return tuple(warnings)

    def prepare_runtime(self) -> Path:
        """Create the runtime directory (0700) and return it. Raises Unavailable if another user owns it."""
        return make_private(self.runtime)

    def _stored_secret(self, name: str) -> str:
        make_private(self.data, known=DATA_DIRECTORY_NAMES)
        text = read_or_create_secret(self.data / name)
        if len(text) < MIN_SECRET_CHARACTERS:
            raise InvalidRequest(
                f"{self.data / name} has fewer than {MIN_SECRET_CHARACTERS} characters. Remove it to get a new one."
            )
        return text


@dataclass(frozen=True)
class Setting:
    """One setting, for help texts and documentation. `default`: a description."""

    name: str
    variable: str
    doc: str
    default: str
    secret: bool
    field: str
    parse: Callable[[str], Any]

    def parse_value(self, text: str, called: str) -> Any:
        """The value of `text`. Raises InvalidRequest, naming the setting as `called`."""
        try:
            return self.parse(text)
        except ValueError as error:
            shown = "" if self.secret else f" is {text[:80]!r}"
            raise InvalidRequest(f"{called}{shown}: write {error}.", self.name) from None


def _declared() -> tuple[Setting, ...]:
    settings = []
    for declared in fields(Settings):
        name = declared.metadata["name"] or declared.name
        settings.append(
            Setting(
                name=name,
                variable=PREFIX + name.upper(),
                doc=declared.metadata["doc"],
                default=declared.metadata["default"] or str(declared.default),
                secret=declared.metadata["secret"],
                field=declared.name,
                parse=declared.metadata["parse"],
            )
        )
    return tuple(settings)


SETTINGS = _declared()
