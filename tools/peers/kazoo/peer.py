"""kazoo's Lock on ZooKeeper as a peer; tools/peers/README.md says how it is spoken to."""

import pathlib
import sys

from kazoo.client import KazooClient

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from contend import TTL, contend


def lock(urls, name):
    # Each task has a session of its own.
    client = KazooClient(urls[0].removeprefix("zookeeper://"), timeout=TTL)
    client.start(timeout=60)
    return client.Lock("/" + name)


contend(lock)
