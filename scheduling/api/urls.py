"""Addresses of scheduling below /api/v1/."""

from django.urls import path, re_path

from scheduling.api import artefacts, capacity, checkpoints, decisions, jobs, links, logs, metrics, quotes, spending

_ID = r"(?P<public_id>[A-Za-z0-9_]{1,40})"

urlpatterns = [
    path("quotes", quotes.Quotes.as_view()),
    re_path(rf"^quotes/{_ID}$", quotes.OneQuote.as_view()),
    path("jobs", jobs.Jobs.as_view()),
    re_path(rf"^jobs/{_ID}$", jobs.OneJob.as_view()),
    re_path(rf"^jobs/{_ID}:cancel$", jobs.Cancel.as_view()),
    re_path(rf"^jobs/{_ID}:retry$", jobs.Retry.as_view()),
    re_path(rf"^jobs/{_ID}/tasks$", jobs.Tasks.as_view()),
    re_path(rf"^jobs/{_ID}/attempts$", jobs.Attempts.as_view()),
    re_path(rf"^jobs/{_ID}/events$", jobs.Events.as_view()),
    re_path(rf"^jobs/{_ID}/cost$", jobs.Cost.as_view()),
    re_path(rf"^jobs/{_ID}/decisions$", jobs.Decisions.as_view()),
    re_path(rf"^jobs/{_ID}/explain$", jobs.Explain.as_view()),
    re_path(rf"^jobs/{_ID}/logs$", logs.Logs.as_view()),
    re_path(rf"^jobs/{_ID}/metrics$", metrics.Metrics.as_view()),
    re_path(rf"^jobs/{_ID}/artefacts$", artefacts.JobArtefacts.as_view()),
    re_path(rf"^jobs/{_ID}/checkpoints$", checkpoints.JobCheckpoints.as_view()),
    path("artefacts", artefacts.Artefacts.as_view()),
    re_path(rf"^artefacts/{_ID}$", artefacts.OneArtefact.as_view()),
    re_path(rf"^artefacts/{_ID}/content$", artefacts.Content.as_view()),
    re_path(rf"^decisions/{_ID}:replay$", decisions.Replay.as_view()),
    path("capacity", capacity.Capacity.as_view()),
    path("capacity/<slug:region>/<slug:zone>", capacity.CapacityOfZone.as_view()),
    path("usage/insight", spending.Insight.as_view()),
    path("usage/elsewhere", spending.Elsewhere.as_view()),
    path("usage/idle", spending.IdleJobs.as_view()),
    path("usage.csv", spending.UsageFile.as_view()),
    path("links", links.Links.as_view()),
    path("schema/job-spec.json", quotes.JobSpecSchema.as_view()),
]
