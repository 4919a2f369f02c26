"""For a WSGI server: `gunicorn wsgi:app`, with everything set by PERFLOOM_… variables.

In this folder gunicorn reads gunicorn.conf.py, whose worker keeps slow clients from holding threads. Another
configuration should name the same `worker_class`, or stand behind a proxy that buffers requests.

`perfloom web` and `perfloom serve` start the same application without this file.
"""

from perfloom.config import Settings
from perfloom.web import create_app

app = create_app(Settings.load())
