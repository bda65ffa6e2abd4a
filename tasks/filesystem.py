"""The `filesystem://` broker with whole messages: kombu's own reader may take a file that is just being written.

Source: kombu/transport/filesystem.py, Channel._put; a worker that reads half a message ends.
"""

import contextlib
import os
from time import monotonic
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Kombu's, but a message gets the name that readers look for once it is complete."""

    def _put(self, queue, payload, **kwargs):
        """Write a message. Raises: ChannelError when the folder does not take it."""
        path = os.path.join(self.data_folder_out, f"{round(monotonic() * 1000)}_{uuid4()}.{queue}.msg")
        try:
            with open(f"{path}.part", "w") as file:
                file.write(dumps(payload))
            os.rename(f"{path}.part", path)
        except OSError as error:
            with contextlib.suppress(OSError):  # it may be what could not be made
                os.unlink(f"{path}.part")
            raise ChannelError(f"Cannot add file {path!r} to the folder of messages.") from error


class Transport(filesystem.Transport):
    """Kombu's, with our channel."""

    Channel = Channel


def install() -> None:
    """Let addresses that begin with `filesystem://` mean this transport in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
