"""What `gunicorn wsgi:app` in this folder reads by itself: the same worker and limits as `perfloom web`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from perfloom.workers.serve.web_server import OPTIONS

globals().update(OPTIONS)
