"""Whence an attempt's agent accepted: the address that the other members of a gang are told."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0006_node_silence")]
    operations = [
        migrations.AddField(
            model_name="attempt",
            name="address",
            field=models.CharField(max_length=64, blank=True, default=""),
            preserve_default=False,
        ),
    ]
