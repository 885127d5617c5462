"""Load on the HTTP gateway, and an oracle that judges what came of it."""
