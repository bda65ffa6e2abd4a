"""manage.py demo: the whole kit on this machine, with a staff user and no server. `make demo` calls it."""

import os

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand

from project import env
from tasks.management.commands.serve import check_port

STAFF_EMAIL = "staff@example.com"


class Command(BaseCommand):
    """Prepare the demo's data, print where everything is, and serve until Ctrl-C."""

    help = "Run the demo: migrate, make a staff user, print the addresses, start everything."

    def add_arguments(self, parser):
        """Declare the options."""
        parser.add_argument("--port", type=int, default=8000, help="the site (default: 8000)")
        parser.add_argument("--flower-port", type=int, default=5555, help="Flower (default: 5555)")

    def handle(self, *args, port, flower_port, **options):
        """Do it all; what is already there is kept."""
        check_port(port, "make demo PORT=")
        check_port(flower_port, "make demo FLOWER_PORT=")
        call_command("migrate", verbosity=0, interactive=False)
        password = env.kept_secret(settings.DATA_DIR / "demo-staff-password", size_bytes=12)
        ensure_staff_user(password)
        os.environ.setdefault("SITE_URL", f"http://127.0.0.1:{port}")  # links in mails; the processes inherit it
        os.environ["FLOWER_BASIC_AUTH"] = f"{STAFF_EMAIL}:{password}"
        self.stdout.write(welcome(port, flower_port, password))
        self.stdout.flush()
        call_command("serve", port=port, flower=True, flower_port=flower_port)


def ensure_staff_user(password: str) -> None:
    """Make the staff user, or give it back the password that will be printed."""
    users = get_user_model().objects
    staff = users.filter(email=STAFF_EMAIL).first()
    if staff is None:
        users.create_superuser(email=STAFF_EMAIL, password=password)
    elif not staff.check_password(password):
        staff.set_password(password)
        staff.save(update_fields=["password"])


def welcome(port: int, flower_port: int, password: str) -> str:
    """Return what a newcomer needs to know."""
    site = f"http://127.0.0.1:{port}"
    return f"""
  Site     {site}/            sign up here and watch the jobs
  Mail     {site}/demo/mail/  what the jobs have sent
  Admin    {site}/admin/      every job, its errors, retry and cancel
  Flower   http://127.0.0.1:{flower_port}/            the workers, live
  Login    {STAFF_EMAIL}  {password}  (Admin and Flower)

  Ctrl-C stops everything warmly. The data stay in {settings.DATA_DIR}; `make demo` goes on with them.
"""
