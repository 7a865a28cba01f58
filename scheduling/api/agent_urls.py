"""/agent/v1: the addresses of `agent.protocol`."""

from django.urls import path

from scheduling.api import agent, agent_runs

urlpatterns = [
    path("enroll", agent.enroll, name="agent_enroll"),
    path("inventory", agent.inventory, name="agent_inventory"),
    path("sync", agent.sync, name="agent_sync"),
    path("usage", agent.usage, name="agent_usage"),
    path("drain", agent.drain, name="agent_drain"),
    path("runs/begin", agent_runs.begin, name="agent_run_begin"),
    path("runs/commit", agent_runs.commit, name="agent_run_commit"),
    path("runs/show", agent_runs.show, name="agent_run_show"),
    path("runs/<str:run>/stream", agent_runs.stream, name="agent_run_stream"),
    path("links", agent.links, name="agent_links"),
    path("attempts/<str:attempt>/accept", agent.accept, name="agent_accept"),
    path("attempts/<str:attempt>/report", agent.report, name="agent_report"),
    path("attempts/<str:attempt>/finish", agent.finish, name="agent_finish"),
    path("attempts/<str:attempt>/metrics", agent.metrics_told, name="agent_metrics"),
    path("attempts/<str:attempt>/logs/<str:stream>", agent.log, name="agent_log"),
    path("attempts/<str:attempt>/inputs/<int:index>", agent.input_bytes, name="agent_input"),
    path("attempts/<str:attempt>/outputs/<str:name>", agent.output, name="agent_output"),
    path("attempts/<str:attempt>/checkpoints/<str:name>", agent.checkpoint_door, name="agent_checkpoint"),
]
