"""The addresses of the provider: its own, a form to sign in with, and one with which a test changes groups."""

from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import include, path


def set_groups(request: Any) -> HttpResponse:
    names = request.GET.getlist("name")
    User.objects.get().groups.set([Group.objects.get_or_create(name=name)[0] for name in names])
    return HttpResponse("ok")


urlpatterns = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("login", LoginView.as_view(template_name="login.html")),
    path("set-groups", set_groups),
]
