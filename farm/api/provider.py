"""An identity provider as its client sees it: discovery, the way there, code for ID token, keys and claims.

OpenID Connect Core 1.0 (authorization code flow) with PKCE (RFC 7636, S256). Signatures are asymmetric ones alone: a
token that is signed with the client's secret, or not at all, is worth nothing here. Blocking: for worker threads.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from farm.oidc_settings import Oidc, check_https
from farm.store.logins import Begun

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
#: Seconds for each answer of the provider.
TIMEOUT_S = 10.0
#: What discovery and keys are believed for, seconds; a key that is not among them is looked for at most this often.
KEEP_S = 3600.0
KEYS_AGAIN_S = 30.0
#: Clocks may differ by this many seconds.
LEEWAY_S = 60
MAX_ANSWER = 1024 * 1024


class ProviderError(RuntimeError):
    """The provider cannot be used, or what it says cannot be believed: says which."""


class Provider:
    """One provider, with what it said of itself."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._lock = threading.Lock()
        self._about: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def way_there(self, begun: Begun, redirect_uri: str) -> str:
        """Where to send the browser. Raises ProviderError."""
        with self._client(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=begun.state,
                nonce=begun.nonce,
                code_verifier=begun.verifier,
            )
            return str(url)

    def redeem(self, code: str, begun: Begun, redirect_uri: str) -> dict[str, Any]:
        """The claims of whoever came back with `code`. Raises ProviderError."""
        try:
            with self._client(redirect_uri) as client:
                answer = client.fetch_token(
                    self._endpoint("token_endpoint"), code=code, code_verifier=begun.verifier, timeout=TIMEOUT_S
                )
        except (AuthlibBaseError, requests.RequestException, ValueError) as error:
            raise ProviderError(f"the provider did not take the code: {_words(error)}") from error
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("the provider sent no ID token")
        return self.claims(token, begun.nonce, answer.get("access_token"))

    def claims(self, id_token: str, nonce: str, access_token: object = None) -> dict[str, Any]:
        """What an ID token says: signature, issuer, audience, times and nonce are checked. Raises ProviderError."""
        try:
            try:
                token = jwt.decode(id_token, self._key_set(), algorithms=ALGORITHMS)
            except (JoseError, ValueError):
                token = jwt.decode(id_token, self._key_set(newest=True), algorithms=ALGORITHMS)
            checked = CodeIDToken(
                token.claims,
                token.header,
                {
                    "iss": {"essential": True, "value": self._oidc.issuer},
                    "aud": {"essential": True, "value": self._oidc.client_id},
                    "sub": {"essential": True},
                },
                {"nonce": nonce, "client_id": self._oidc.client_id, "access_token": access_token},
            )
            checked.validate(now=int(time.time()), leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ProviderError(f"the ID token cannot be believed: {_words(error)}") from error
        if not isinstance(checked["sub"], str) or not 0 < len(checked["sub"]) <= 255:
            raise ProviderError("the ID token names no subject")
        return dict(checked)

    def _client(self, redirect_uri: str) -> OAuth2Session:
        try:
            secret = self._oidc.secret()
        except OSError as error:
            raise ProviderError(f"FARM_OIDC_CLIENT_SECRET_FILE cannot be read: {error.strerror}") from error
        methods = self._discover().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        way = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return OAuth2Session(
            self._oidc.client_id,
            secret,
            scope=self._oidc.scopes,
            redirect_uri=redirect_uri,
            token_endpoint_auth_method=way if secret else "none",
            code_challenge_method="S256",
        )

    def _endpoint(self, name: str) -> str:
        url = str(self._discover().get(name) or "")
        try:
            check_https(f"the provider's {name}", url)
        except ValueError as wrong:
            raise ProviderError(str(wrong)) from None
        return url

    def _discover(self) -> dict[str, Any]:
        with self._lock:
            if self._about is None or self._about[0] < time.monotonic() - KEEP_S:
                about = _fetch(self._oidc.issuer.rstrip("/") + "/.well-known/openid-configuration")
                if about.get("issuer") != self._oidc.issuer:
                    said = str(about.get("issuer"))[:200]
                    raise ProviderError(f"the provider calls itself {said!r} and not {self._oidc.issuer!r}")
                self._about = (time.monotonic(), about)
            return self._about[1]

    def _key_set(self, newest: bool = False) -> KeySet:
        """The provider's keys; `newest`: asked for again, unless that was just done."""
        keep_s = KEYS_AGAIN_S if newest else KEEP_S
        url = self._endpoint("jwks_uri")
        with self._lock:
            if self._keys is None or self._keys[0] < time.monotonic() - keep_s:
                found = _fetch(url)
                try:
                    keys = KeySet.import_key_set(found)  # type: ignore[arg-type]  # checked there
                except (JoseError, ValueError, TypeError, KeyError) as error:
                    raise ProviderError(f"the provider's keys cannot be read: {_words(error)}") from error
                self._keys = (time.monotonic(), keys)
            return self._keys[1]


def _fetch(url: str) -> dict[str, Any]:
    """A JSON object from the provider; bounded in time and size."""
    try:
        with requests.get(url, timeout=TIMEOUT_S, stream=True, headers={"Accept": "application/json"}) as answer:
            answer.raise_for_status()
            data = answer.raw.read(MAX_ANSWER, decode_content=True)
        found = json.loads(data)
    except (requests.RequestException, OSError, ValueError) as error:
        raise ProviderError(f"{url} does not answer as it should: {_words(error)}") from error
    if not isinstance(found, Mapping):
        raise ProviderError(f"{url} answers with something else than an object")
    return dict(found)


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]
