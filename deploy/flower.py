"""Flower's options on the host: `celery -A project flower --conf=deploy/flower.py`."""

import os

from project import env

address = "127.0.0.1"  # nginx alone reaches it, and asks the site whether the visitor is staff
port = env.integer("FLOWER_PORT", 5555, low=1, high=65535)
url_prefix = "flower"
xheaders = True
cookie_secret = env.text("FLOWER_COOKIE_SECRET")
max_tasks = 2_000  # kept in memory; the job table is the record
purge_offline_workers = 300  # seconds; each release has a worker of its own name
os.environ["FLOWER_UNAUTHENTICATED_API"] = "true"  # its pages call its API, and the login before it is the site's
