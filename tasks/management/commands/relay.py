"""manage.py relay: the process that moves due rows to the broker."""

from django.core.management.base import BaseCommand

from tasks.relay_process import Relay


class Command(BaseCommand):
    """Run the relay."""

    help = "Move due jobs to the broker until SIGTERM. Two relays are safe."

    def handle(self, **options):
        """Relay until told to stop."""
        Relay().run()
