"""The log archive: inboxes and journals copied to a store of objects while the fleet runs."""

ARCHIVE_SECONDS = 2.0  # so much may be lost with the disk, unless told otherwise
