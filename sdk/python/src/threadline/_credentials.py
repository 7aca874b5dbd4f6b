"""Time for which a bearer token is used."""

from __future__ import annotations

import base64
import json

from ._limits import REFRESH_AT_SHARE


def usable_for(token: str) -> float:
    """Seconds from its arrival for which a token is used: four fifths of the lifetime of a JWT, infinite for an opaque token.

    Only the difference of `exp` and `iat` counts, since the clocks of this machine and of the server may differ.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        lifetime = float(claims["exp"]) - float(claims["iat"])
    except (IndexError, KeyError, TypeError, ValueError):
        return float("inf")
    return max(0.0, lifetime) * REFRESH_AT_SHARE
