"""Objects that outlive the disk of the fleet: snapshots and the log archive are kept as these."""
