"""The share of scarce capacity that an operator gives an organisation: 1,000 thousandths is the usual one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_start")]
    operations = [
        migrations.AddField(
            model_name="organisation",
            name="share_weight_milli",
            field=models.PositiveIntegerField(default=1_000),
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(("share_weight_milli__gte", 1), ("share_weight_milli__lte", 1_000_000)),
                name="organisation_weight_within_bounds",
            ),
        ),
    ]
