"""What went wrong, in a sentence that a person can act on."""


class KitError(Exception):
    """The command cannot go on; its text says why and what to do. It ends with exit code 1."""
