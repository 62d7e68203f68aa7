"""Where tasks come from: GitHub, GitLab, a folder of markdown files.

Every source keeps the contract of ``base``. The packages that reach GitHub and GitLab are imported by their own
modules only, when a source is made.
"""
