"""Who may ask what, and what every response says."""

from __future__ import annotations

import logging
import re
import time
from types import SimpleNamespace

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.config import Settings
from perfloom.web.app import create_app
from perfloom.web.security import host_allowed, local_path
from perfloom.web.throttle import Throttle
from tests.support.cpu import limit_cpu_s
from tests.web.conftest import TOKEN, Browser

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_without_the_token_there_is_only_the_login(client: FlaskClient, ordinary: str) -> None:
    for path in ("/", f"/results/{ordinary}", f"/results/{ordinary}/hotspots.csv", "/import", "/metrics", "/nothing"):
        response = client.get(path)
        assert response.status_code == 401, path
        assert "<h1>Sign in</h1>" in response.text
        assert "ordinary result" not in response.text


def test_without_the_token_the_api_answers_in_json(client: FlaskClient, ordinary: str) -> None:
    response = client.get(f"/api/v1/results/{ordinary}/hotspots")
    assert response.status_code == 401
    assert "Authorization: Bearer" in response.json["error"]
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_no_change_without_the_token(client: FlaskClient, app: Flask, ordinary: str) -> None:
    assert client.post(f"/results/{ordinary}/delete").status_code == 401
    assert client.delete(f"/api/v1/results/{ordinary}").status_code == 401
    assert app.extensions["perfloom"].store.results.find(ordinary) is not None


def test_the_token_in_an_address_becomes_a_cookie_and_leaves_the_address(client: FlaskClient) -> None:
    response = client.get(f"/?search=a%26b&token={TOKEN}&sort=name")
    assert response.status_code == 303
    assert response.headers["Location"] == "/?search=a%26b&sort=name"
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" not in cookie
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200


def test_the_cookie_is_secure_over_https(client: FlaskClient) -> None:
    response = client.get(f"/?token={TOKEN}", base_url="https://localhost")
    assert "Secure" in response.headers["Set-Cookie"]


@pytest.mark.parametrize("token", ["", "x", TOKEN + "x", TOKEN[:-1], TOKEN.upper(), "ä\ud800"])
def test_another_token_opens_nothing(client: FlaskClient, token: str) -> None:
    encoded = token.encode("utf-8", "surrogatepass")
    assert client.get("/", query_string={"token": token.encode("utf-8", "replace").decode()}).status_code == 401
    assert client.post("/login", data={"token": encoded}).status_code == 401
    assert client.get("/", headers={"Authorization": b"Bearer " + encoded}).status_code == 401
    assert client.get("/").status_code == 401


def test_the_login_form(client: FlaskClient) -> None:
    response = client.post("/login", data={"token": f" {TOKEN}\n", "next": "/import?x=1"})
    assert (response.status_code, response.headers["Location"]) == (303, "/import?x=1")
    assert client.get("/import").status_code == 200
    assert client.get("/login").status_code == 303


def test_signing_out(browser_client: Browser) -> None:
    assert browser_client.post("/logout").status_code == 303
    assert browser_client.client.get("/").status_code == 401


def _cookie(client: FlaskClient) -> tuple[str, str]:
    return next((cookie.key, cookie.value) for cookie in client._cookies.values())


def test_signing_out_ends_the_session_on_the_server(browser_client: Browser, app: Flask) -> None:
    """A copy of the cookie is also invalid."""
    thief = app.test_client()
    thief.set_cookie(*_cookie(browser_client.client))
    assert thief.get("/").status_code == 200
    assert browser_client.post("/logout").status_code == 303
    assert thief.get("/").status_code == 401


def test_signing_out_everywhere(browser_client: Browser, app: Flask) -> None:
    other = Browser(app.test_client())
    assert browser_client.post("/logout", everywhere="1").status_code == 303
    assert other.client.get("/").status_code == browser_client.client.get("/").status_code == 401
    assert app.test_client().get("/api/v1/results", headers=BEARER).status_code == 200


def test_sessions_are_listed_and_ended_individually(browser_client: Browser, app: Flask) -> None:
    client = app.test_client()
    client.get(f"/?token={TOKEN}", headers={"User-Agent": "<b>Lynx</b>"})
    page = browser_client.page("/sessions")
    assert "&lt;b&gt;Lynx" in page and "this browser" in page
    names = re.findall(r'name="name" value="([0-9a-f]{16})"', page)
    assert len(names) == 1
    assert browser_client.post("/logout", name=names[0]).status_code == 303
    assert client.get("/").status_code == 401
    assert "Lynx" not in browser_client.page("/sessions")


def test_database_does_not_contain_session_ids(browser_client: Browser, app: Flask) -> None:
    with browser_client.client.session_transaction() as held:
        id = held["id"]
    store = app.extensions["perfloom"].store
    with store.database.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM sessions").all()
    assert len(rows) == 1 and id not in str(rows)


def test_a_session_ends_with_its_time(browser_client: Browser, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 31 * 86400
    monkeypatch.setattr("perfloom.store.sessions.time.time", lambda: later)
    assert browser_client.client.get("/").status_code == 401


def test_a_request_writes_nothing_for_its_session(browser_client: Browser, app: Flask) -> None:
    store = app.extensions["perfloom"].store
    with store.database.engine.connect() as connection:
        before = connection.exec_driver_sql("PRAGMA data_version").scalar()
        browser_client.page("/")
        assert connection.exec_driver_sql("PRAGMA data_version").scalar() == before


class TestGuessing:
    """Wrong tokens are counted by address."""

    @pytest.fixture(autouse=True)
    def at_once(self, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
        """However slow the machine is, all of it happens in one moment."""
        now = time.monotonic()
        monkeypatch.setattr("perfloom.web.throttle.time", SimpleNamespace(monotonic=lambda: now))

    def test_after_a_few_the_address_must_wait(self, app: Flask, browser_client: Browser) -> None:
        client = app.test_client()
        for number in range(10):
            assert client.post("/login", data={"token": f"x{number}"}).status_code == 401
        for response in (
            client.post("/login", data={"token": "x"}),
            client.get("/?token=x"),
            client.get("/api/v1/results", headers={"Authorization": "Bearer x"}),
        ):
            assert response.status_code == 429 and int(response.headers["Retry-After"]) >= 1
        # Who is in stays in, and others have their own tries.
        assert browser_client.client.get("/").status_code == 200
        there = {"REMOTE_ADDR": "10.9.8.7"}
        assert client.post("/login", data={"token": "x"}, environ_overrides=there).status_code == 401

    @pytest.mark.parametrize("claimed", [{}, {"X-Forwarded-For": "10.1.1.1"}])
    def test_the_right_token_always_passes(self, app: Flask, claimed: dict[str, str]) -> None:
        """However many wrong ones came from its address, and from addresses that others only claim to have."""
        client = app.test_client()
        for number in range(300):
            forwarded = {"X-Forwarded-For": f"10.0.{number}.1"} if number < 250 else claimed
            client.post("/login", data={"token": "x"}, headers=forwarded)
        assert client.post("/login", data={"token": "x"}, headers=claimed).status_code == 429
        assert client.get("/api/v1/results", headers=BEARER | claimed).status_code == 200
        assert client.post("/login", data={"token": TOKEN}, headers=claimed).status_code == 303
        assert app.test_client().get(f"/?token={TOKEN}", headers=claimed).status_code == 303

    def test_behind_a_proxy_the_address_is_that_of_the_client(
        self, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(20):
            client.post("/login", data={"token": "x"}, headers={"X-Forwarded-For": f"10.0.0.{number}, 10.1.1.1"})
        mine = {"X-Forwarded-For": "10.1.1.1, 10.2.2.2"}
        assert client.post("/login", data={"token": "x"}, headers=mine).status_code == 401
        # Only a proxy that is trusted may say so.
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")
        for number in range(20):
            client.post("/login", data={"token": "x"}, headers={"X-Forwarded-For": f"10.3.3.{number}"})
        assert client.post("/login", data={"token": "x"}).status_code == 429

    def test_a_flood_from_everywhere_does_not_lock_the_owner_out(self) -> None:
        throttle = Throttle(now=0.0)
        passed = 0
        for number in range(100_000):
            at, address = number / 1000, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            if not throttle.wait_s(address, at):
                passed += 1
                throttle.record_failure(address, at)
        assert passed < 1200
        # Beside the flood the owner gets in with one of a few tries.
        assert any(not throttle.wait_s("192.0.2.1", 100.0 + each / 2) for each in range(10))

    def test_one_network_of_ipv6_is_one_address(self) -> None:
        throttle = Throttle(now=0.0)
        for number in range(10):
            throttle.record_failure(f"2001:db8::{number:x}", 0.0)
        assert throttle.wait_s("2001:db8::ffff", 0.0) > 0 and not throttle.wait_s("2001:db8:0:1::1", 0.0)
        assert not throttle.wait_s("2001:db8::ffff", 7.0)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_form_of_many_fields_is_refused_at_once(client: FlaskClient, kind: str) -> None:
    if "multipart" in kind:
        body = (
            b"".join(b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' for _ in range(60_000))
            + b"--x--\r\n"
        )
    else:
        body = b"a=&" * 400_000
    with limit_cpu_s(0.5):
        response = client.post("/login", data=body, content_type=kind)
    assert response.status_code == 413 and "has more fields" in response.text


def test_a_program_shows_the_token_in_a_header(client: FlaskClient, ordinary: str) -> None:
    assert client.get("/api/v1/results", headers=BEARER).json["total"] == 1
    assert "Set-Cookie" not in client.get("/api/v1/results", headers=BEARER).headers
    assert client.delete(f"/api/v1/results/{ordinary}", headers=BEARER).status_code == 204


def test_a_cookie_of_another_installation_is_worth_nothing(browser_client: Browser, tmp_path: object) -> None:
    name, value = next(iter((c.key, c.value) for c in browser_client.client._cookies.values()))
    other = create_app(Settings.load(f"{tmp_path}/other", environ={}, token=TOKEN)).test_client()
    assert other.get(f"/?token={TOKEN}").status_code == 303
    key = next(iter(c.key for c in other._cookies.values()))
    assert key != name
    stranger = create_app(Settings.load(f"{tmp_path}/other", environ={}, token=TOKEN)).test_client()
    stranger.set_cookie(key, value)
    assert stranger.get("/").status_code == 401


class TestChanges:
    """Every change needs a sign that our own page asked for it."""

    @pytest.fixture
    def rename(self, ordinary: str) -> str:
        return f"/results/{ordinary}/edit"

    def test_with_the_token_of_the_session(self, browser_client: Browser, rename: str) -> None:
        assert browser_client.post(rename, name="renamed").status_code == 303
        assert "renamed" in browser_client.page("/")

    def test_as_a_header(self, browser_client: Browser, rename: str) -> None:
        headers = {"X-CSRF-Token": browser_client.csrf}
        assert browser_client.client.post(rename, data={"name": "renamed"}, headers=headers).status_code == 303

    @pytest.mark.parametrize("csrf", ["", "x", "A" * 88, "ä", "=" * 88])
    def test_not_with_another(self, browser_client: Browser, rename: str, csrf: str) -> None:
        response = browser_client.post(rename, name="renamed", csrf=csrf)
        assert response.status_code == 403
        assert "Reload the page" in response.text
        assert "renamed" not in browser_client.page("/")

    def test_not_with_that_of_another_session(self, browser_client: Browser, app: Flask, rename: str) -> None:
        other = Browser(app.test_client())
        assert browser_client.post(rename, name="renamed", csrf=other.csrf).status_code == 403

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:81", "http://localhost.evil"])
    def test_not_from_another_site(self, browser_client: Browser, rename: str, origin: str) -> None:
        response = browser_client.client.post(
            rename, data={"csrf": browser_client.csrf, "name": "renamed"}, headers={"Origin": origin}
        )
        assert response.status_code == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_not_when_the_browser_says_so(self, browser_client: Browser, rename: str, site: str) -> None:
        response = browser_client.client.post(
            rename, data={"csrf": browser_client.csrf, "name": "x"}, headers={"Sec-Fetch-Site": site}
        )
        assert response.status_code == 403

    def test_the_token_is_masked_anew_for_every_page(self, browser_client: Browser) -> None:
        again = browser_client.page("/").split('name="csrf-token" content="')[1].split('"')[0]
        assert again != browser_client.csrf

    def test_every_form_that_posts_has_it(self, browser_client: Browser, ordinary: str) -> None:
        for path in ("/", f"/results/{ordinary}/edit", f"/results/{ordinary}/delete", "/import", "/nothing"):
            text = browser_client.client.get(path).text
            for form in re.findall(r"<form[^>]*method=.post.*?</form>", text, re.DOTALL):
                assert 'name="csrf"' in form, (path, form[:200])


@pytest.mark.parametrize(
    "path", ["/", "/login", "/nothing", "/import", "/healthz", "/metrics", "/api/v1/results", "/static/css/base.css"]
)
@pytest.mark.parametrize("signed_in", [True, False])
def test_headers_of_every_response(app: Flask, path: str, signed_in: bool) -> None:
    response = app.test_client().get(path, headers=BEARER if signed_in else {})
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    if not path.startswith("/static"):
        assert response.headers["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("localhost:8000", True),
        ("LOCALHOST.", True),
        ("127.0.0.1:8000", True),
        ("127.3.2.1", True),
        ("[::1]:8000", True),
        ("10.1.2.3:80", True),
        ("perf.example.org", True),
        ("Perf.Example.Org:8443", True),
        ("login1", True),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.nip.io", False),
        ("perf.example.org.evil.example", False),
        ("evil.example@localhost", True),
        ("localhost@evil.example", False),
        ("[::1", False),
        ("localhost/../x", True),
        ("loc alhost", False),
        ("\u202elocalhost", False),
    ],
)
def test_hosts(host: str, allowed: bool) -> None:
    assert host_allowed(host, "login1", ("perf.example.org",)) is allowed


@pytest.mark.parametrize("path", ["/", "/static/css/base.css", "/api/v1/results", "/login"])
def test_another_host_name_is_refused(client: FlaskClient, path: str) -> None:
    response = client.get(path, headers={"Host": "rebound.example", **BEARER})
    assert response.status_code == 400
    assert "PERFLOOM_TRUSTED_HOSTS" in response.text


def test_health_needs_neither_token_nor_name(client: FlaskClient) -> None:
    response = client.get("/healthz", headers={"Host": "10.0.0.7:8000"})
    assert (response.status_code, response.text) == (200, "ok\n")
    assert client.get("/healthz", headers={"Host": "whatever.internal"}).status_code == 200


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/results/x?a=1", "/results/x?a=1"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_redirects_stay_here(client: FlaskClient, target: str, kept: str) -> None:
    assert local_path(target) == kept
    response = client.post("/login", data={"token": TOKEN, "next": target})
    assert response.headers["Location"] == kept


def test_a_token_at_a_strange_path_redirects_here(client: FlaskClient) -> None:
    response = client.get(f"//evil.example/..?token={TOKEN}")
    assert response.headers.get("Location", "/").startswith("/")
    assert not response.headers.get("Location", "/").startswith("//")


def test_no_token_in_logs(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("gunicorn.error")
    logger.addHandler(caplog.handler)
    try:
        logger.error("Error handling request %s", f"/?a=1&token={TOKEN}&b=2")
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.messages[-1] == "Error handling request /?a=1&token=[not shown]&b=2"


def test_no_secret_in_a_page(browser_client: Browser, settings: Settings, ordinary: str) -> None:
    for path in ("/", "/import", f"/results/{ordinary}", "/nothing", "/metrics"):
        text = browser_client.client.get(path).text
        assert TOKEN not in text
        assert (settings.data / "secret").read_text().strip() not in text
