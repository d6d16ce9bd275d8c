"""redis-py's Lock as a peer; tools/peers/README.md says how it is spoken to."""

import pathlib
import sys

import redis

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from contend import TTL, contend


def lock(urls, name):
    server = redis.Redis.from_url(urls[0])
    server.ping()
    return server.lock(name, timeout=TTL)


contend(lock)
