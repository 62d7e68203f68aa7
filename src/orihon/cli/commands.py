"""The commands by name, in the order of the help page, each as ``module:function`` of this package.

A module is imported when its command runs, or when all commands are listed.
"""

from __future__ import annotations

COMMANDS = {
    "list": "list:list_tasks",
    "show": "show:show",
    "view": "view:view",
    "diff": "diff:diff",
    "chain": "chain:chain",
    "search": "search:search",
    "export": "export:export",
    "import": "imports:import_",
    "compress": "compress:compress",
    "undo": "changes:undo",
    "redo": "changes:redo",
    "rewind": "changes:rewind",
    "fork": "fork:fork",
    "unfold": "changes:unfold",
    "edit": "changes:edit",
    "pin": "changes:pin",
    "unpin": "changes:unpin",
    "enqueue": "queue:enqueue",
    "worker": "worker:worker",
    "pause": "queue:pause",
    "resume": "queue:resume",
    "cancel": "queue:cancel",
    "retry": "queue:retry",
    "approvals": "approvals:approvals",
    "approve": "approvals:approve",
    "reject": "approvals:reject",
    "revise": "approvals:revise",
    "notifications": "notifications:notifications",
    "restore": "restore:restore",
    "archive": "archive:archive",
    "unarchive": "archive:unarchive",
    "keep": "retention:keep",
    "cleanup": "retention:cleanup",
    "vacuum": "retention:vacuum",
    "maintain": "retention:maintain",
    "tools": "tools:tools",
    "verify": "verify:verify",
    "doctor": "doctor:doctor",
    "backup": "backup:backup",
    "migrate": "migrate:migrate",
    "workers": "workers:workers",
    "stats": "stats:stats",
    "monitor": "monitor:monitor",
    "costs": "costs:costs",
    "metrics": "metrics:metrics",
    "squeeze": "squeeze:squeeze",
    "completion": "completion:completion",
    "demo": "main:play_demo",
    "config show": "config:show",
    "init": "init:init",
}

#: Commands that run without a configuration: one that cannot be read must not keep them from it.
WITHOUT_SETTINGS = ("init",)
