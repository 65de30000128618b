"""A small OpenID provider in a process of its own, for tests: discovery, authorize, token (RS256), keys.

    python -m tests.oidc_provider

It prints its issuer and serves until it is killed. It checks its client as a real one does (redirect address, PKCE,
secret, a code works once), lets everybody through as `claims`, and does wrong what `POST /fault` asks for.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "farm", "a secret of thirty-two characters"
BACK = "/login/oidc/back"


class Provider:
    """What the provider knows. `fault`: claims to lie about, or what to do wrong."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.stranger = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.issuer = ""
        self.claims: dict[str, Any] = {"sub": "1001", "preferred_username": "ann"}
        self.fault: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims |= self.claims | self.fault.get("claims", {})
        claims = {name: value for name, value in claims.items() if value is not None}
        match self.fault.get("sign"):
            case "none":
                return _by_hand({"alg": "none", "kid": "first"}, claims, None)
            case "secret":
                return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET))
            case "public-key":  # the public key taken for a shared secret
                return _by_hand({"alg": "HS256"}, claims, self.key.as_pem(private=False))
            case "stranger":
                return jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.stranger)
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)


def _by_hand(head: dict[str, str], claims: dict[str, Any], key: bytes | None) -> str:
    """A token such as no honest library makes."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, claims)]
    mark = hmac.digest(key, b".".join(parts), "sha256") if key is not None else b""
    return b".".join((*parts, base64.urlsafe_b64encode(mark).rstrip(b"="))).decode()


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/.well-known/openid-configuration":
                self._json(self._about())
            case "/keys":
                self._json({"keys": [self.provider.key.as_dict(private=False)]})
            case "/authorize":
                self._authorize(query)
            case _:
                self._json({"error": "not_found"}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        match urlsplit(self.path).path:
            case "/token":
                self._token({name: values[0] for name, values in parse_qs(body).items()})
            case "/fault":
                asked = json.loads(body)
                self.provider.claims = asked.pop("people", self.provider.claims)
                if asked.pop("rotate", False):
                    self.provider.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})
                self.provider.fault = asked
                self._json({})
            case _:
                self._json({"error": "not_found"}, 404)

    def _about(self) -> dict[str, Any]:
        at = self.provider.issuer
        return {
            "issuer": self.provider.fault.get("issuer", at),
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "jwks_uri": f"{at}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _authorize(self, query: dict[str, str]) -> None:
        back = query.get("redirect_uri", "")
        wrong = (
            query.get("client_id") != CLIENT_ID
            or urlsplit(back).path != BACK
            or query.get("response_type") != "code"
            or "openid" not in query.get("scope", "").split()
            or query.get("code_challenge_method") != "S256"
            or not query.get("code_challenge")
        )
        if wrong:
            self._json({"error": "invalid_request", "asked": query}, 400)
            return
        if "deny" in self.provider.fault:
            self._redirect(f"{back}?{urlencode({'error': 'access_denied', 'state': query['state']})}")
            return
        code = secrets.token_urlsafe(16)
        self.provider.codes[code] = query
        self._redirect(f"{back}?{urlencode({'code': code, 'state': query['state']})}")

    def _token(self, form: dict[str, str]) -> None:
        login = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET.replace(' ', '+')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        asked = self.provider.codes.pop(form.get("code", ""), None)
        if self.headers.get("Authorization") not in (f"Basic {login}", f"Basic {plain}"):
            self._json({"error": "invalid_client"}, 401)
            return
        hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
        if (
            asked is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != asked["redirect_uri"]
            or challenge != asked["code_challenge"]
        ):
            self._json({"error": "invalid_grant"}, 400)
            return
        answer = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 300}
        if "no-id-token" not in self.provider.fault:
            answer["id_token"] = self.provider.id_token(asked.get("nonce", ""))
        self._json(answer)

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    provider = Provider()
    Handler.provider = provider
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    print(provider.issuer, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
