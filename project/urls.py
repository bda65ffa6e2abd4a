"""Which page is where. Each feature brings its own."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from project.ops.views import healthz
from project.staff_access import staff_access

urlpatterns = [
    path("healthz", healthz),
    path("admin/", admin.site.urls),
    path("staff-access/", staff_access, name="staff-access"),
    path("", include("project.signup.urls")),
]
if settings.IS_DEMO:
    urlpatterns.append(path("demo/", include("project.demo.urls")))
