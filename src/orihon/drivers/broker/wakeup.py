"""``wake_workers``: notifies the workers that listen to a broker, from whoever has enqueued a task again.

Promises that a broker which is away, or not installed here, fails nothing: it is said in the log, and the workers find
the task in the catalogue by themselves, at most a ``queue.poll_interval`` later.
"""

from __future__ import annotations

import logging
from contextlib import closing

from orihon.drivers.broker.address import BrokerAddress
from orihon.drivers.broker.broker import Broker
from orihon.errors import OrihonError
from orihon.settings import Settings

logger = logging.getLogger("orihon.broker")


def wake_workers(settings: Settings, uuid: str) -> None:
    """Say at the broker, if there is one, that a task may be in line."""
    if settings.queue.url is None:
        return
    try:
        address = BrokerAddress.of(settings.queue.url)
        address.require_packages()
        with closing(Broker(address, settings.queue.name)) as broker:
            broker.publish(uuid)
    except OrihonError as error:
        logger.warning("%s: %s", uuid, error)
