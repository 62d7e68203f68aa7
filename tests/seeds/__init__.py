"""What the five design documents write, run as it is written. ``blocks`` holds copies of their examples by section."""
