"""Downloads pip as a wheel from the package index and checks it against the hash that the index states.

The index, its certificates and proxies are those that pip itself would use: PIP_INDEX_URL, PIP_CERT, pip.conf,
https_proxy and so on.
"""

import base64
import configparser
import hashlib
import html.parser
import http.client
import json
import os
import platform
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from common import REACH, Failure


def pip_settings():
    """The settings in pip's configuration files and environment, environment last, as pip reads them."""
    settings = {}
    home = Path(os.path.expanduser("~"))
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", config_home / "pip" / "pip.conf"]
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        files = []
    elif chosen:
        files.append(Path(chosen))
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(str(file))
        except (configparser.Error, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update((key.replace("_", "-"), value) for key, value in parser.items(section))
    for key, value in os.environ.items():
        if key.startswith("PIP_") and value:
            settings[key[4:].lower().replace("_", "-")] = value
    return settings


def opener(settings):
    """An opener of URLs with pip's certificates and proxy, else the environment's."""
    certificates = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    where = {}
    if certificates:
        where["capath" if os.path.isdir(certificates) else "cafile"] = certificates
    handlers = [urllib.request.HTTPSHandler(context=ssl.create_default_context(**where))]
    if settings.get("proxy"):
        handlers.append(urllib.request.ProxyHandler({"http": settings["proxy"], "https": settings["proxy"]}))
    return urllib.request.build_opener(*handlers)


class Links(html.parser.HTMLParser):
    """The links of one project's page in a package index."""

    def __init__(self):
        html.parser.HTMLParser.__init__(self)
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs))


def split_login(url):
    """A URL without the user name and password in it, and the header that sends them, or None."""
    parts = urllib.parse.urlsplit(url)
    if parts.username is None:
        return url, None
    words = (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
    header = "Basic " + base64.b64encode("{}:{}".format(*words).encode()).decode()
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), header


def passing(error):
    """Whether an error of an index may be temporary."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code == 429
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return not isinstance(cause, (ConnectionRefusedError, ssl.SSLCertVerificationError))


class Index:
    """A package index: its wheels of pip, fetched as pip would. A login is sent to the index's own host only."""

    def __init__(self, url, settings):
        self.url, self.login = split_login(url)
        self.host = urllib.parse.urlsplit(self.url).netloc
        self.opener = opener(settings)
        self.timeout = float(settings.get("default-timeout") or settings.get("timeout") or 60)

    def fetch(self, url, accept="*/*"):
        """(final URL, media type, body)."""
        request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "perfloom-bootstrap"})
        if self.login and urllib.parse.urlsplit(url).netloc == self.host:
            request.add_unredirected_header("Authorization", self.login)
        for pause in (1, 4, 0):
            try:
                with self.opener.open(request, timeout=self.timeout) as answer:
                    return answer.geturl(), answer.headers.get_content_type(), answer.read()
            except (OSError, http.client.HTTPException) as error:
                if not pause or not passing(error):
                    raise
            time.sleep(pause)


def candidates(index):
    """Every wheel of pip in an index: (version, URL, sha256), newest last.

    The index answers as PEP 691 JSON or as the HTML of PEP 503; pre-releases, withdrawn files and those for another
    Python are skipped.
    """
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    base, kind, body = index.fetch(index.url.rstrip("/") + "/pip/", accept)
    if kind.endswith("json"):
        files = [
            (f["url"], f.get("hashes", {}).get("sha256"), f.get("requires-python"), f.get("yanked"))
            for f in json.loads(body.decode("utf-8"))["files"]
        ]
    else:
        links = Links()
        links.feed(body.decode("utf-8", "replace"))
        files = []
        for link in links.found:
            url, _, fragment = (link.get("href") or "").partition("#")
            digest = dict(urllib.parse.parse_qsl(fragment)).get("sha256")
            files.append((url, digest, link.get("data-requires-python"), "data-yanked" in link))
    wheels = []
    for url, digest, requires, yanked in files:
        match = re.search(r"/?pip-(\d+(?:\.\d+)*)-py3-none-any\.whl$", urllib.parse.urlsplit(url).path)
        if match and digest and not yanked and suits(requires):
            version = tuple(int(n) for n in match.group(1).split("."))
            wheels.append((version, urllib.parse.urljoin(base, url), digest))
    return sorted(wheels)


def suits(requires):
    """Whether this Python satisfies a Requires-Python such as `>=3.9,!=3.9.1`; an unknown one is accepted."""
    for clause in (requires or "").split(","):
        match = re.match(r"\s*(>=|<|>|<=)\s*(\d+(?:\.\d+)*)\s*$", clause)
        if match:
            operator, wanted = match.group(1), tuple(int(n) for n in match.group(2).split("."))
            here = sys.version_info[: len(wanted)]
            if not {">=": here >= wanted, "<": here < wanted, ">": here > wanted, "<=": here <= wanted}[operator]:
                return False
    return True


def local_wheel(settings):
    """pip's newest wheel in the local directories of PIP_FIND_LINKS, for machines without access to an index."""
    found = []
    for place in settings.get("find-links", "").split():
        folder = place[len("file://") :] if place.startswith("file://") else place
        found += Path(folder).glob("pip-*-py3-none-any.whl")
    if not found:
        raise Failure("PIP_NO_INDEX is set, and no folder of PIP_FIND_LINKS holds a wheel of pip.")
    return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name.split("-")[1])])


def pip_wheel(folder):
    """Download pip's newest wheel into a directory and check it; returns its path."""
    settings = pip_settings()
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        return local_wheel(settings)
    urls = [settings.get("index-url") or "https://pypi.org/simple", *settings.get("extra-index-url", "").split()]
    problems = []
    for index in [Index(url, settings) for url in urls]:
        try:
            wheels = candidates(index)
            if not wheels:
                problems.append(f"{index.url}: no wheel of pip for Python {platform.python_version()}")
                continue
            _, url, digest = wheels[-1]
            body = index.fetch(url)[2]
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            problems.append(f"{index.url}: {error}")
            continue
        if hashlib.sha256(body).hexdigest() != digest:
            raise Failure(f"{url} is not what the index promised (sha256 {digest}); try again later.")
        path = Path(folder) / urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
        path.write_bytes(body)
        return path
    raise Failure(
        "pip could not be fetched:\n  {}\n{} Where certificates are missing: apt-get install ca-certificates.".format(
            "\n  ".join(problems), REACH
        )
    )
