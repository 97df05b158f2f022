"""What suppliers send: documents, what parsing them gave, facts and their sources, snapshots of facts."""
