"""The jobs of accounts."""

from pathlib import Path

from django.conf import settings

from project.accounts.models import User
from tasks.api import PermanentError, job


@job("accounts.remove_files")
def remove_files(user_id: int) -> None:
    """Remove what is kept in files about a deleted user: whatever settings.FILES_OF_A_USER names.

    Raises: PermanentError while the user exists; TypeError for what is no id; OSError.
    """
    if type(user_id) is not int:  # a pattern such as * would name everybody's files
        raise TypeError("user_id must be a whole number.")
    if User.objects.filter(pk=user_id).exists():
        raise PermanentError(f"User {user_id} exists; its files are removed when it is deleted.")
    for pattern in settings.FILES_OF_A_USER:
        for path in Path(settings.MEDIA_ROOT).glob(pattern.format(id=user_id)):
            path.unlink(missing_ok=True)
