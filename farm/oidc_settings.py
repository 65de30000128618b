"""Who may log in through an identity provider (OpenID Connect), read from the environment.

| variable                     | what                                                                              |
|------------------------------|-----------------------------------------------------------------------------------|
| FARM_OIDC_ISSUER             | the provider's issuer, `https://…`; empty: nobody logs in this way                |
| FARM_OIDC_CLIENT_ID          | this farm's name there                                                            |
| FARM_OIDC_CLIENT_SECRET_FILE | file with the secret; empty: a public client (PKCE alone)                         |
| FARM_OIDC_SCOPES             | what to ask for; default `openid profile email`                                   |
| FARM_OIDC_CLAIM              | claim that lists a person's groups; default `groups`                              |
| FARM_OIDC_ALLOW_GROUPS       | groups whose members may log in, comma-separated                                  |
| FARM_OIDC_ALLOW_DOMAINS      | domains of verified e-mail addresses that may log in; `*`: whoever the provider knows |
| FARM_OIDC_TEAMS              | `group=team, …`: the first that fits is a person's team, at every login           |
| FARM_OIDC_ROLES              | `group=role, …`: the widest that fits is a person's role, at every login; member else |

Standard library only, like `farm.settings`, which holds the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROLES = ("viewer", "member", "operator", "admin")
ANYBODY = "*"
_TEAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Oidc:
    """An identity provider and whom of its people the farm lets in. Mappings keep their order."""

    issuer: str
    client_id: str
    secret_file: Path | None = None
    scopes: str = "openid profile email"
    claim: str = "groups"
    allow_groups: tuple[str, ...] = ()
    allow_domains: tuple[str, ...] = ()
    teams: tuple[tuple[str, str], ...] = ()
    roles: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """What a person calls the provider: its host."""
        return urlsplit(self.issuer).hostname or self.issuer

    def secret(self) -> str | None:
        """The client's secret, read anew each time so that it can be changed; None for a public client.

        Raises OSError when the file cannot be read.
        """
        return self.secret_file.read_text().strip() if self.secret_file is not None else None


def load_oidc(env: Mapping[str, str]) -> Oidc | None:
    """The provider that the environment names; None: none. Raises ValueError: which variable, and what it should be."""
    issuer = env.get("FARM_OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    check_https("FARM_OIDC_ISSUER", issuer)
    client_id = env.get("FARM_OIDC_CLIENT_ID", "").strip()
    if not client_id:
        raise ValueError("FARM_OIDC_ISSUER is set but FARM_OIDC_CLIENT_ID is not: register this farm at the provider")
    secret = env.get("FARM_OIDC_CLIENT_SECRET_FILE", "").strip()
    found = Oidc(
        issuer=issuer,
        client_id=client_id,
        secret_file=Path(secret).expanduser().absolute() if secret else None,
        scopes=env.get("FARM_OIDC_SCOPES", "").strip() or "openid profile email",
        claim=env.get("FARM_OIDC_CLAIM", "").strip() or "groups",
        allow_groups=_words(env.get("FARM_OIDC_ALLOW_GROUPS", "")),
        allow_domains=tuple(domain.lower() for domain in _words(env.get("FARM_OIDC_ALLOW_DOMAINS", ""))),
        teams=_pairs("FARM_OIDC_TEAMS", env.get("FARM_OIDC_TEAMS", "")),
        roles=_pairs("FARM_OIDC_ROLES", env.get("FARM_OIDC_ROLES", "")),
    )
    if "openid" not in found.scopes.split():
        raise ValueError(f"FARM_OIDC_SCOPES is {found.scopes!r}: it must have `openid`")
    if not found.allow_groups and not found.allow_domains:
        raise ValueError(
            "FARM_OIDC_ISSUER is set but nobody is let in: name FARM_OIDC_ALLOW_GROUPS or FARM_OIDC_ALLOW_DOMAINS "
            "(`*`: whoever the provider knows)"
        )
    for group, team in found.teams:
        if not _TEAM.fullmatch(team):
            raise ValueError(f"FARM_OIDC_TEAMS gives {group!r} the team {team!r}: letters, digits and . _ @ + - alone")
    for group, role in found.roles:
        if role not in ROLES:
            raise ValueError(f"FARM_OIDC_ROLES gives {group!r} the role {role!r}: there are {', '.join(ROLES)}")
    return found


def check_https(what: str, url: str) -> None:
    """Raises ValueError unless `url` is https, or http to this machine itself: logins do not travel in the clear."""
    parts = urlsplit(url)
    loopback = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and loopback)):
        raise ValueError(f"{what} is {url!r}: give an https address")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _pairs(variable: str, text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for word in _words(text):
        group, mark, value = (part.strip() for part in word.rpartition("="))
        if not mark or not group or not value:
            raise ValueError(f"{variable} has {word!r}: write `group={'role' if 'ROLES' in variable else 'team'}, …`")
        pairs.append((group, value))
    return tuple(pairs)
