"""The pages that only the demo has."""

from django.urls import path, re_path

from project.demo import views

app_name = "demo"
urlpatterns = [
    path("mail/", views.mail, name="mail"),
    # Only names that Django's file backend gives: no path can be smuggled in.
    re_path(r"^mail/(?P<name>\d{8}-\d{6}-\d+\.log)/(?P<index>\d{1,6})/$", views.letter, name="letter"),
]
