"""TLS 1.3 only, for a library that has no setting for it. This module must not import gRPC.

The ciphers that gRPC can be told are those of TLS 1.2. It is told one that needs a secret which
nobody has: so TLS 1.2 finds nothing in common, while the ciphers of TLS 1.3 are always there. It
reads them once, when it is imported.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import UsageError

VARIABLE = "GRPC_SSL_CIPHER_SUITES"
NOBODY_HAS = "ECDHE-PSK-CHACHA20-POLY1305"


def only_tls_1_3() -> None:
    if os.environ.get(VARIABLE) == NOBODY_HAS:
        return
    if "grpc" in sys.modules:
        raise UsageError(
            "gRPC was in use before the gateway was made, and would take TLS 1.2: run the gateway "
            "in a process of its own, or without --grpc-port"
        )
    os.environ[VARIABLE] = NOBODY_HAS
