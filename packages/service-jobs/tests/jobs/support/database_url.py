"""The address of a test's database as one URL."""

from urllib.parse import quote, urlsplit

from bpc.runtime.postgres.address import Address


def format_url(address: Address) -> str:
    if address.url is None:
        return f"postgresql://{address.user}@/{address.database}?host={quote(address.host)}&port={address.port}"
    return urlsplit(address.url)._replace(path=f"/{address.database}").geturl()
