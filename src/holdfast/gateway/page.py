"""The page at `/`: what comes in, for people, until there is a dashboard."""

from __future__ import annotations

from pathlib import Path

PAGE_HTML = Path(__file__).with_name("page.html").read_bytes()
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
