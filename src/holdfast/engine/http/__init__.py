"""The engine behind a gateway: `http://host:port`. It appends and reads; it cannot fold."""
