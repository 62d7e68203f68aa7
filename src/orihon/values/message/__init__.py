"""A message: its parts, the dialects of providers, what of it goes over the wire."""
