"""Object storage: S3, Google, Azure, or a plain folder, in our words.

``ObjectStorage.of(settings)`` is what the settings name. Nothing heavy is imported before that.
"""

from orihon.drivers.objects.base import ObjectContent, ObjectInfo, ObjectStorage, check_key

__all__ = ["ObjectContent", "ObjectInfo", "ObjectStorage", "check_key"]
