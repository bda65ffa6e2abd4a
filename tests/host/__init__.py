"""A real Debian machine with systemd on this one, the kit deployed to it, attacked, and cut off from power."""
