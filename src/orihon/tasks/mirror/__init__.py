"""A live task's folder, copied to the object storage as it grows, so that another machine can go on with it."""

from orihon.tasks.mirror.mirror import Mirror
from orihon.tasks.mirror.stores import (
    MirroredMessageStore,
    S3MessageStore,
    fetch_mirror,
    fetch_newer_mirror,
    go_on_mirroring,
    mirror_at_end,
    mirror_change,
    open_message_store,
)

__all__ = [
    "Mirror",
    "MirroredMessageStore",
    "S3MessageStore",
    "fetch_mirror",
    "fetch_newer_mirror",
    "go_on_mirroring",
    "mirror_at_end",
    "mirror_change",
    "open_message_store",
]
