"""One frozen ``Settings`` object: flag over environment over ``config.yaml`` over default.

``load_settings`` makes it, and refuses by name what it does not know or what cannot be. The table of all
settings is ``sections``; ``docs/settings.md`` describes them. Importing this package reads nothing.
"""

from __future__ import annotations

from orihon.settings.load import find_config, load_settings
from orihon.settings.model import Setting, Settings, schema
from orihon.settings.remote_sections import (
    ArchiveSettings,
    AuditSettings,
    DatabaseSettings,
    EncryptionSettings,
    QueueSettings,
)
from orihon.settings.runtime_sections import (
    MultiprocessSettings,
    QuotaSettings,
    RuntimeSettings,
    SourceSettings,
    ToolSettings,
)
from orihon.settings.sections import (
    CompressionSettings,
    ContextStorageSettings,
    InheritanceSettings,
    LLMSettings,
    LoggingSettings,
    MaskingSettings,
    MemorySettings,
    ProviderSettings,
    RetentionSettings,
)

__all__ = [
    "ArchiveSettings",
    "AuditSettings",
    "CompressionSettings",
    "ContextStorageSettings",
    "DatabaseSettings",
    "EncryptionSettings",
    "InheritanceSettings",
    "LLMSettings",
    "LoggingSettings",
    "MaskingSettings",
    "MemorySettings",
    "MultiprocessSettings",
    "ProviderSettings",
    "QueueSettings",
    "QuotaSettings",
    "RetentionSettings",
    "RuntimeSettings",
    "Setting",
    "Settings",
    "SourceSettings",
    "ToolSettings",
    "find_config",
    "load_settings",
    "schema",
]
