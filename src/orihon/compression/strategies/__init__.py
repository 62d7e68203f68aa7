"""The strategies: each decides what of a view to fold. Pure planners over ``pages``."""
