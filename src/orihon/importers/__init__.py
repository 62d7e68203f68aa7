"""Transcripts that other agents have written, read and kept as tasks.

``importer.import_transcripts`` does it. A format is one file here (``registry.Importer``) and one row of its
``FORMATS``; it only reads. ``tool_pairs`` makes what it read legal, ``writer`` stores it.
"""
