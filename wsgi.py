"""For a WSGI server: `gunicorn wsgi:app`, with everything set by PERFLOOM_… variables.

`perfloom web` and `perfloom serve` start the same application without this file.
"""

from perfloom.config import Settings
from perfloom.web import create_app

app = create_app(Settings.load())
