"""The pages, by what people come for. Names are `console:<page>`."""

from django.urls import path

from frontend.views import accounts, find, home, public

app_name = "console"

urlpatterns = [
    path("", public.landing, name="landing"),
    path("home", home.index, name="home"),
    path("find", find.index, name="find"),
    path("preferences", public.preferences, name="preferences"),
    path("switch", public.switch, name="switch"),
    path("invitations/<str:token>", accounts.invitation, name="invitation"),
    path("projects", accounts.project_list, name="projects"),
    path("projects/<str:slug>", accounts.project, name="project"),
    path("settings/members", accounts.member_list, name="members"),
    path("settings/keys", accounts.key_list, name="keys"),
    path("settings/secrets", accounts.secret_list, name="secrets"),
    path("settings/organisation", accounts.organisation, name="organisation"),
    path("settings/profile", accounts.profile, name="profile"),
    path("organisations/new", accounts.organisation_new, name="organisation_new"),
]
