"""A task's history in a file that leaves Orihon: complete for programs, readable for people.

``export_task`` writes one task, ``export_tasks`` many. Only looks at tasks, also at those that somebody works on; holds
one message at a time, and a file is there whole or not at all.
"""

from orihon.transfer.export.export import FORMS, Exported, ExportRun, Form, export_task, export_tasks

__all__ = ["FORMS", "ExportRun", "Exported", "Form", "export_task", "export_tasks"]
