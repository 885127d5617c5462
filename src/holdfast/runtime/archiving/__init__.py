"""The log archive: inboxes and journals copied to a store of objects while the fleet runs."""
