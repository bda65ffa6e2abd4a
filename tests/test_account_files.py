"""Deleting a user, in whatever way, removes what is kept in files about it."""

from pathlib import Path

import pytest
from django.db import transaction

from project.accounts.models import User
from project.accounts.tasks import remove_files
from tasks.api import PermanentError
from tasks.models import Job
from tests.welcome import files


@pytest.fixture
def user(transactional_db) -> User:
    """Return a user."""
    return User.objects.create_user("ann@example.com")


@pytest.fixture
def media(settings, tmp_path, user) -> Path:
    """Return where the files are: two of the user, one of another."""
    settings.MEDIA_ROOT = tmp_path / "media"
    (settings.MEDIA_ROOT / "welcome").mkdir(parents=True)
    for name in (f"{user.id}.pdf", f".{user.id}.font.ttf", f"{user.id}0.pdf"):
        (settings.MEDIA_ROOT / "welcome" / name).touch()
    return settings.MEDIA_ROOT


def delete_the_instance(admin_client, user: User) -> None:
    """Delete as code does."""
    user.delete()


def delete_the_queryset(admin_client, user: User) -> None:
    """Delete many."""
    User.objects.filter(pk=user.pk).delete()


def delete_in_admin(admin_client, user: User) -> None:
    """Press Delete on the user's page."""
    admin_client.post(f"/admin/accounts/user/{user.pk}/delete/", {"post": "yes"})


def delete_selected_in_admin(admin_client, user: User) -> None:
    """Tick the user in the list and choose the action."""
    ticked = {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"}
    admin_client.post("/admin/accounts/user/", ticked)


DELETIONS = [delete_the_instance, delete_the_queryset, delete_in_admin, delete_selected_in_admin]


@pytest.mark.parametrize("delete", DELETIONS)
def test_deleting_a_user_removes_its_files_and_nobody_elses(user, media, admin_client, delete):
    user_id = user.id

    delete(admin_client, user)

    assert not User.objects.filter(pk=user_id).exists()
    remove_files(**Job.objects.get(kind="accounts.remove_files").arguments)
    assert files(media) == [f"{user_id}0.pdf"]


def test_deletion_that_is_rolled_back_removes_nothing(user):
    def give_up_after_the_deletion():
        with transaction.atomic():
            user.delete()
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        give_up_after_the_deletion()

    assert not Job.objects.exists()


@pytest.mark.parametrize("user_id", ["*", "1", None, 1.0, True])
def test_only_a_number_names_files(media, user_id):
    with pytest.raises(TypeError):
        remove_files(user_id=user_id)

    assert len(files(media)) == 3


def test_files_of_a_user_that_exists_stay(user, media):
    with pytest.raises(PermanentError):
        remove_files(user_id=user.id)

    assert len(files(media)) == 3
