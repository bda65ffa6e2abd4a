"""A feature that the host suite adds to its clone of the kit, project/trial: jobs that are slow, greedy or hungry."""
