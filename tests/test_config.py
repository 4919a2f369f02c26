"""Settings: their sources, the messages about invalid ones, and the protection of secrets."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from perfloom import paths
from perfloom.config import SETTINGS, Settings
from perfloom.domain.errors import InvalidRequest, Unavailable
from tests.support.parts import missing


def mode(path: Path) -> int:
    """The permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_settings_are_declared_once() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names) and {"data", "host", "port", "token", "database_url"} <= set(names)
    for setting in SETTINGS:
        assert setting.variable == "PERFLOOM_" + setting.name.upper()
        assert setting.doc.endswith(".") and "\n" not in setting.doc and setting.default


def test_defaults(tmp_path: Path) -> None:
    settings = Settings.load(environ={"HOME": str(tmp_path)})
    data = tmp_path / ".local/share/perfloom"
    assert (settings.data, settings.host, settings.port) == (data, "127.0.0.1", 8000)
    assert settings.upload_limit_bytes == 20_000_000_000
    assert settings.database_url == f"sqlite:///{data}/catalogue.sqlite" and settings.uses_sqlite
    assert settings.broker_url == f"redis+socket://{settings.runtime}/redis.sock" and settings.uses_private_broker
    assert Settings.load(environ={"HOME": "/h", "XDG_DATA_HOME": "/x"}).data == Path("/x/perfloom")
    assert Settings.load(environ={"HOME": "/h", "XDG_DATA_HOME": "x"}).data == Path("/h/.local/share/perfloom")
    assert not data.exists()


def test_option_overrides_environment(tmp_path: Path) -> None:
    environ = {"PERFLOOM_DATA": str(tmp_path / "e"), "PERFLOOM_PORT": "9000", "PERFLOOM_HOST": ""}
    assert Settings.load(environ=environ).data == tmp_path / "e"
    assert Settings.load(environ=environ).port == 9000
    settings = Settings.load(tmp_path / "o", environ, port=0, host=None, cache_bytes="1KiB")
    assert (settings.data, settings.port, settings.host, settings.cache_bytes) == (tmp_path / "o", 0, "127.0.0.1", 1024)
    with pytest.raises(TypeError):
        Settings.load(tmp_path, environ, colour="red")


def test_relative_directory_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.load("data", {}).data == tmp_path / "data"
    assert Settings.load(environ={"PERFLOOM_DATA": "data"}).data == tmp_path / "data"


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("5", 5), ("5B", 5), ("1kB", 1000), ("20GB", 20 * 10**9), ("1.5 GiB", 3 * 2**29), ("2T", 2 * 10**12)],
)
def test_sizes(text: str, size: int) -> None:
    assert Settings.load("/d", {"PERFLOOM_UPLOAD_LIMIT_BYTES": text}).upload_limit_bytes == size


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("PORT", "abc", "PERFLOOM_PORT is 'abc': write a whole number from 0 to 65535"),
        ("PORT", "65536", "whole number"),
        ("PORT", "-1", "whole number"),
        ("PORT", "٣", "whole number"),
        ("HOST", "a b", "an address or host name"),
        ("PERFETTO_URL", "javascript:alert(1)", "the address of a site"),
        ("SPEEDSCOPE_URL", "https://x/?a=1#b", "the address of a site"),
        ("DEBUGINFOD_URLS", "https://a.example ftp://b.example", "addresses separated by spaces"),
        ("HOST", "x\r\nSet-Cookie: y", "an address or host name"),
        ("TRUSTED_HOSTS", "a.example, b/c", "an address or host name"),
        ("DATABASE_URL", "mysql://x", "postgresql://USER"),
        ("BROKER_URL", "amqp://x", "redis://"),
        ("UPLOAD_LIMIT_BYTES", "20 gallons", "20GB"),
        ("UPLOAD_LIMIT_BYTES", "-5", "20GB"),
        ("NETWORK_DATA", "maybe", "1 or 0"),
        ("READ_SECONDS", "0", "whole number from 1"),
        ("TOKEN", "short", "at least 32"),
        ("TOKEN", "x" * 31, "at least 32"),
        ("DATA", "a\0b", "a path"),
        ("WAITING_FUNCTIONS", "my_spin;a(b", "separated by semicolons"),
    ],
)
def test_invalid_value_message_has_advice(name: str, value: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Settings.load("/d" if name != "DATA" else None, {f"PERFLOOM_{name}": value})
    assert hint in caught.value.message and caught.value.field == name.lower()


def test_waiting_functions_are_patterns_separated_by_semicolons() -> None:
    settings = Settings.load("/d", {"PERFLOOM_WAITING_FUNCTIONS": r" my_spin_\w+; ;libfast\.so.* "})
    assert settings.waiting_functions == (r"my_spin_\w+", r"libfast\.so.*")


def test_formulas_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "formulas.toml"
    file.write_text('[[formula]]\nname = "CPI"\nexpression = "cycles / instructions"\n', encoding="utf-8")
    (formula,) = Settings.load("/d", {"PERFLOOM_FORMULAS": str(file)}).formulas
    assert (formula.name, formula.expression) == ("CPI", "cycles / instructions")
    with pytest.raises(InvalidRequest, match=r"PERFLOOM_FORMULAS is .*: write the path of a readable TOML file"):
        Settings.load("/d", {"PERFLOOM_FORMULAS": str(tmp_path / "missing.toml")})
    file.write_text('[[formula]]\nname = "CPI"\nexpression = "cycles /"\n', encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"Formula 1 \(CPI\): The formula ends too early, after character 8"):
        Settings.load("/d", {"PERFLOOM_FORMULAS": str(file)})


def test_invalid_option_is_named_in_message() -> None:
    with pytest.raises(InvalidRequest, match=r"^port is 'x': write"):
        Settings.load("/d", {}, port="x")


def test_secrets_are_not_in_repr_or_messages() -> None:
    environ = {
        "PERFLOOM_TOKEN": "sesame-open-sesame-open-sesame-open-sesame",
        "PERFLOOM_SECRET_KEY": "sesame-key-sesame-key-sesame-key",
        "PERFLOOM_DATABASE_URL": "postgresql://u:sesame@h/d",
        "PERFLOOM_BROKER_URL": "redis://:sesame@h/0",
    }
    settings = Settings.load("/d", environ)
    assert "sesame" not in repr(settings) + str(settings)
    assert settings.token == "sesame-open-sesame-open-sesame-open-sesame"
    assert settings.database_url == "postgresql+psycopg://u:sesame@h/d" and not settings.uses_sqlite
    assert not settings.uses_private_broker
    for variable in environ:
        with pytest.raises(InvalidRequest) as caught:
            Settings.load("/d", {variable: "sesame\n"})
        assert "sesame" not in caught.value.message


def test_directories_and_secrets_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        settings = Settings.load(tmp_path / "new" / "data", {"PERFLOOM_RUNTIME": str(tmp_path / "run")})
        assert settings.prepare() == ()
        token = settings.token
        settings.prepare_runtime()
        assert len(settings.cookie_key) == 32
    finally:
        os.umask(old)
    assert mode(settings.data) == mode(settings.runtime) == mode(settings.data / "results") == 0o700
    assert mode(settings.data / "token") == mode(settings.data / "secret") == 0o600
    assert len(token) == 48 and (settings.data / "token").read_text() == token + "\n"
    again = Settings.load(settings.data, {})
    assert again.token == token and again.cookie_key == settings.cookie_key
    assert sorted(path.name for path in settings.data.iterdir() if path.is_file()) == ["secret", "token"]


def test_new_token_invalidates_sessions(tmp_path: Path) -> None:
    keys = {
        Settings.load(tmp_path / "d", {}, token="t" * 32).cookie_key,
        Settings.load(tmp_path / "d", {}, token="u" * 32).cookie_key,
        Settings.load(tmp_path / "d", {}, token="t" * 32, secret_key="k" * 32).cookie_key,
        Settings.load(tmp_path / "e", {}, token="t" * 32).cookie_key,
    }
    assert len(keys) == 4
    one = Settings.load(tmp_path / "f", {}, token="t" * 32, secret_key="k" * 32)
    assert one.cookie_key in keys


def test_concurrent_first_requests_get_the_same_token(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, {})
    found: list[str] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait(10)
        found.append(settings.token)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8 and len(set(found)) == 1


def test_token_file_with_wrong_mode_or_no_content_is_repaired(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, {})
    (tmp_path / "token").write_text("kept-kept-kept-kept-kept-kept-kept\n")
    (tmp_path / "token").chmod(0o644)
    assert settings.token == "kept-kept-kept-kept-kept-kept-kept" and mode(tmp_path / "token") == 0o600
    (tmp_path / "token").write_text("")
    assert len(settings.token) == 48


def test_short_token_file_is_refused(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, {})
    (tmp_path / "token").write_text("sesame\n")
    with pytest.raises(InvalidRequest, match="Remove it"):
        _ = settings.token


def test_token_file_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 30)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="Remove it"):
        _ = Settings.load(tmp_path, {}).token


def test_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").write_text("x")
    settings = Settings.load(tmp_path, {})
    for use in (settings.prepare, lambda: settings.token):
        with pytest.raises(InvalidRequest, match="empty or new directory"):
            use()
    assert mode(tmp_path) == 0o755 and [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_data_directory_becomes_private_again(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path / "data", {})
    settings.prepare()
    settings.data.chmod(0o755)
    settings.prepare()
    assert mode(settings.data) == 0o700


def test_file_instead_of_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with pytest.raises(InvalidRequest, match="not a directory"):
        Settings.load(tmp_path / "data", {}).prepare()
    with pytest.raises(Unavailable, match="Choose another"):
        Settings.load(tmp_path / "data" / "below", {}).prepare()


def test_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("another user's directory", "run the tests as root, who can make one")
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 12345, 12345)
    (tmp_path / "link").symlink_to(tmp_path)
    os.lchown(tmp_path / "link", 12345, 12345)
    for name in ("run", "link"):
        settings = Settings.load(tmp_path / "data", {"PERFLOOM_RUNTIME": str(tmp_path / name)})
        with pytest.raises(Unavailable, match="another"):
            settings.prepare_runtime()


def test_runtime_directory_is_shared_by_processes_of_a_user(tmp_path: Path) -> None:
    base = tmp_path / "run"
    base.mkdir()
    data = tmp_path / "data"
    if len(str(base)) < 50:
        assert paths.runtime_directory(data, {"XDG_RUNTIME_DIR": str(base)}).parent == base
    elsewhere = paths.runtime_directory(data, {"XDG_RUNTIME_DIR": "/nonexistent"})
    assert elsewhere.parent in (Path("/tmp"), Path(f"/run/user/{os.geteuid()}"))
    assert elsewhere == paths.runtime_directory(data, {}) != paths.runtime_directory(tmp_path / "other", {})
    # The socket's path must fit into sockaddr_un.
    long = tmp_path / ("x" * 100)
    long.mkdir()
    for environ in ({}, {"XDG_RUNTIME_DIR": str(long)}):
        assert len(str(paths.runtime_directory(data, environ) / "redis.sock")) < 108
    (tmp_path / "alias").symlink_to(data)
    assert paths.runtime_directory(tmp_path / "alias", {}) == elsewhere


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
31 22 0:31 / /scratch\\040space rw shared:3 - lustre mgs@tcp:/scratch rw
32 30 254:1 / /home/local rw - xfs /dev/vdb rw
33 22 0:33 / /over rw - nfs server:/over rw
34 22 0:34 / /over rw - tmpfs tmpfs rw
35 22 0:35 / /gone rw - fuse.sshfs host: rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/anna/data", "nfs4"),
        ("/home", "nfs4"),
        ("/homework", None),
        ("/home/local/data", None),
        ("/scratch space/x", "lustre"),
        ("/over/x", None),
        ("/gone/x", "fuse.sshfs"),
        ("/srv", None),
    ],
)
def test_network_filesystems_are_detected(path: str, kind: str | None) -> None:
    assert paths.network_filesystem(Path(path), MOUNTS) == kind
    assert paths.network_filesystem(Path(path), "") is None


def test_sqlite_is_refused_on_a_network_filesystem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfloom.config.network_filesystem", lambda path: "nfs4")
    with pytest.raises(InvalidRequest, match=r"nfs4.*PERFLOOM_DATA.*PERFLOOM_DATABASE_URL.*PERFLOOM_NETWORK_DATA"):
        Settings.load(tmp_path / "data", {}).prepare()
    for allowed in ({"network_data": "1"}, {"database_url": "postgresql://h/d"}):
        (warning,) = Settings.load(tmp_path / "data", {}, **allowed).prepare()
        assert "nfs4" in warning


def test_mounts_of_this_machine_can_be_read(tmp_path: Path) -> None:
    paths.network_filesystem(tmp_path)
