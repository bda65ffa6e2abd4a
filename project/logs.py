"""What must not stand in a log line."""

import logging
import re

# What comes after these is a live link, or the address of somebody's status page.
SECRET_PATH = re.compile(r"(/(?:confirm|signup)/).+", re.DOTALL)


class HideTokens(logging.Filter):
    """Cut tokens and signed links out of the paths that Django logs with refusals and errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the line; every line stays."""
        record.msg, record.args = SECRET_PATH.sub(r"\1...", record.getMessage()), ()
        return True
