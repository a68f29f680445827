"""The URL of a store: what is refused without asking a server, and what of it is shown."""

from __future__ import annotations

import pytest

from crosswind.cli.options import shown_store
from crosswind.core.errors import StoreError
from crosswind.storage.database import check_url, has_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:hidden@host:5432/db", "postgresql://u@host:5432/db"),
        ("postgresql://u:hid:den?@host/db", "postgresql://u@host/db"),
        ("postgresql://u@host/db?password=hidden", "postgresql://u@host/db"),
        (
            "postgresql://u@host/db?sslmode=require&password=hid@den&application_name=a",
            "postgresql://u@host/db?sslmode=require&application_name=a",
        ),
        ("postgresql://host/db?user=u&sslpassword=hidden", "postgresql://host/db?user=u"),
    ],
)
def test_a_store_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_store(url) == shown
    assert has_password(url)
    assert not has_password(shown)
    assert shown_store("out/a: b") == "out/a: b"


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:hid@den@host/db", "postgresql://u:p@den/w@host/db", "postgresql://a:b:c"],
)
def test_a_password_that_ends_too_early_is_refused_before_a_host_is_looked_up(url: str) -> None:
    with pytest.raises(StoreError, match="an @ of a password is %40") as refusal:
        check_url(url)
    assert "den" not in str(refusal.value)
    assert check_url("postgresql://u:hid%40den@host/db").password == "hid@den"
