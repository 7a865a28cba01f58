"""The row of the engine that leads."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0004_market_changes")]
    operations = [
        migrations.CreateModel(
            name="EngineLeader",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=64, blank=True)),
                ("until", models.DateTimeField(null=True)),
                ("since", models.DateTimeField(null=True)),
                ("takeovers", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(id=1), name="engine_leader_one_row")],
            },
        ),
    ]
