"""A small coding task that plays by itself on real files, to see Orihon at work without a model."""
