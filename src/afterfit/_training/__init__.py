"""From an experiment to its run."""
