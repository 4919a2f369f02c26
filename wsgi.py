"""For a WSGI server: `gunicorn wsgi:app`, with everything set by PERFLOOM_… variables.

In this folder gunicorn reads gunicorn.conf.py, whose worker keeps slow clients from holding threads. Another
configuration should name the same `worker_class`, or stand behind a proxy that buffers requests.

`perfloom web` and `perfloom serve` start the same application without this file.
"""

import os

from perfloom.config import SECRETS, Settings
from perfloom.web.app import create_app
from perfloom.workers.base import processes

processes.disable_dumping()
settings = Settings.load()
for name in SECRETS:
    # What this process starts does not get them; its own environment, as /proc shows it, is hidden.
    os.environ.pop(name, None)
app = create_app(settings, shared=True)
