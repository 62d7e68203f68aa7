"""A small coding task on real files, to see the whole of Orihon at work: queue, worker, model, tools, folds, resume."""
