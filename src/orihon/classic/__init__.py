"""The names of the first designs, thin, over the rest."""
