"""How a tenant is taxed: the platform's rate, or reverse charge between two states of the European Union."""

from django.conf import settings

from billing.domain import tax
from billing.domain.tax import Party, Treatment
from portal.accounts.models import Organisation


def of_tenant(tenant: Organisation) -> Treatment:
    """The treatment that holds for a tenant now; an issued invoice keeps the one it was issued with."""
    return tax.treat(
        rate_ppm=settings.IDLEWILD_TAX_PPM,
        issuer=Party(settings.IDLEWILD_ISSUER_COUNTRY, settings.IDLEWILD_ISSUER_TAX_ID),
        tenant=Party(tenant.country, tenant.tax_id),
    )


def rate_ppm(organisation_id: int) -> int:
    """The rate of a tenant in parts per million; the platform's for an organisation that is not known."""
    tenant = Organisation.objects.filter(id=organisation_id).first()
    return settings.IDLEWILD_TAX_PPM if tenant is None else of_tenant(tenant).rate_ppm
