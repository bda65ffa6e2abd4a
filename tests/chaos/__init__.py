"""A seeded random fault run: processes and servers are killed under a stream of jobs, then every promise is checked."""
