"""As whom programs run on this machine, and what of the server's secrets they could read: for whoever lets them run."""

import os
from dataclasses import replace
from pathlib import Path

from perfloom.config import SECRETS, Settings
from perfloom.domain.errors import PerfloomError
from perfloom.domain.facts import HostFacts
from perfloom.handed_secrets import FILE
from perfloom.launchers.quoting import join
from perfloom.places import mounts
from perfloom.workers.transports.as_user import UserTransport, entry_of

READABLE = 'for one in "$@"; do [ -r "$one" ] && printf "%s\\n" "$one"; done; exit 0'


def with_job_user(facts: HostFacts, settings: Settings) -> HostFacts:
    """The facts with those of the user that programs run as."""
    paths = [settings.data / name for name in ("token", "secret", "catalogue.sqlite")]
    paths += [Path(found) for name in SECRETS if (found := os.environ.get(f"{name}{FILE}"))]
    names = [str(path) for path in paths]
    if not settings.run_as:
        readable = tuple(name for name in names if os.access(name, os.R_OK, effective_ids=True))
        return replace(facts, jobs_uid=os.geteuid(), jobs_mounts=mounts(), readable_secrets=readable)
    user = entry_of(settings.run_as)
    try:
        done = UserTransport(settings.run_as).run(f"set -- {join(names)}\n{READABLE}")
        readable = tuple(done.text.splitlines())
    except (PerfloomError, OSError):
        # Nobody can say that they cannot.
        readable = tuple(names)
    return replace(
        facts, jobs_uid=user.pw_uid, jobs_mounts=mounts(), readable_secrets=readable, user=user.pw_name, root=False
    )
