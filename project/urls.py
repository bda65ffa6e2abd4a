"""Which page is where. Each feature brings its own."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from project.ops.views import healthz

urlpatterns = [
    path("healthz", healthz),
    path("admin/", admin.site.urls),
    path("", include("project.signup.urls")),
]
if settings.IS_DEMO:
    urlpatterns.append(path("demo/", include("project.demo.urls")))
