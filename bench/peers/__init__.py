"""The others: each in its own folder, with its own virtual environment and exact versions."""
