"""URLs of servers, read as libpq and redis-py read them."""

import pytest

from portal.stack import addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://u:p%40x@%2Fvar%2Flib%2Fx/db",
            {"USER": "u", "PASSWORD": "p@x", "HOST": "/var/lib/x", "NAME": "db", "OPTIONS": {}},
        ),
        (
            "postgresql://postgres@/postgres?host=/var/lib/x",
            {"USER": "postgres", "HOST": "/var/lib/x", "NAME": "postgres", "OPTIONS": {}},
        ),
        (
            "postgres://u@h:6543/db?sslmode=require&connect_timeout=3",
            {
                "USER": "u",
                "HOST": "h",
                "PORT": "6543",
                "NAME": "db",
                "OPTIONS": {"sslmode": "require", "connect_timeout": 3},
            },
        ),
    ],
)
def test_a_database_url_becomes_djangos_words(url: str, expected: dict[str, object]) -> None:
    assert addresses.database(url) == {"ENGINE": addresses.ENGINE, **expected}


def test_a_socket_has_three_spellings() -> None:
    forms = addresses.redis_forms("unix:///path/s?db=3")
    assert forms.client == "unix:///path/s?db=3"
    assert forms.broker == "redis+socket:///path/s?virtual_host=3"
    assert forms.channel_host == {"address": "unix:///path/s?db=3", "socket_timeout": None}


def test_a_tcp_address_has_one() -> None:
    forms = addresses.redis_forms("redis://h/0")
    assert (forms.client, forms.broker, forms.channel_host["address"]) == ("redis://h/0", "redis://h/0", "redis://h/0")


@pytest.mark.parametrize("url", ["memcached://h", "h:6379", ""])
def test_another_scheme_is_refused_with_examples(url: str) -> None:
    with pytest.raises(ValueError, match="redis://host:6379/0"):
        addresses.redis_forms(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("unix:///a/s?db=0", "unix:///a/s?db=5"),
        ("redis://u:p@h:1/0", "redis://u:p@h:1/5"),
        ("rediss://h", "rediss://h/5"),
    ],
)
def test_a_worker_has_a_number_of_its_own(url: str, expected: str) -> None:
    assert addresses.with_database_number(url, 5) == expected


def test_mail_goes_to_files_without_a_server() -> None:
    assert addresses.mail("")[0].endswith("filebased.EmailBackend")


def test_a_mail_server_is_read_from_its_url() -> None:
    backend, server = addresses.mail("smtp://u%40x:p%2F@h:587?tls=1")
    assert backend.endswith("smtp.EmailBackend")
    assert server == {"host": "h", "port": 587, "user": "u@x", "password": "p/", "tls": True, "ssl": False}


@pytest.mark.parametrize("url", ["imap://h", "smtp://", "h:25"])
def test_a_wrong_mail_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match="smtp://user"):
        addresses.mail(url)
