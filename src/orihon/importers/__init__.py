"""Transcripts that other agents have written, read and kept as tasks.

``importing.import_transcripts`` does it. A format is one file here (``base.Importer``) and one row of ``registry``; it
only reads. ``pairing`` makes what it read legal, ``writing`` stores it.
"""
