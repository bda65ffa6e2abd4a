"""The pages of the signup feature."""

from django.urls import path

from project.signup import views

app_name = "signup"
urlpatterns = [
    path("", views.home, name="home"),
    path("signup/<slug:token>/", views.page, name="page"),
    path("signup/<slug:token>/status", views.status, name="status"),
    path("confirm/<str:signed>/", views.confirm, name="confirm"),
    path("api/signup", views.api_signup, name="api"),
]
