"""Backups: a folder with everything that is stored, and a list of its files by which one changed byte shows.

<folder>/bpc-20270218T031700Z/
  manifest.json   what it is, when and by which build it was taken, and every file with size and SHA-256
  manifest.sha256
  base/           a copy of the embedded server's files, as `pg_basebackup` makes it while the server works
  bpc.dump        or, of any other server, what `pg_dump` wrote
  keys/           private keys, only if somebody asked for that

take ─► check ─► put back into an empty place
"""
