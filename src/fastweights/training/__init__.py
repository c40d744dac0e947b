"""Training: the loop, its schedule, and what makes a run survive being killed."""
