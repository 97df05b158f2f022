"""The embedded PostgreSQL: the binaries of a wheel, a data directory, and a keeper process.

    use_server(data_dir) ──► shared lock on `postgres.users` ──► ready? ──► EmbeddedServer
                                                            └──► start the keeper, wait

Every process that uses the server holds a shared lock while it lives; the operating system drops it when the process
ends, also after kill -9. The keeper is the server's parent: it restarts a server that died, and waits for the same lock
exclusively, which it gets when the last user has gone. Then it stops the server.
"""

from bpc.runtime.postgres.server import EmbeddedServer, use_server

__all__ = ["EmbeddedServer", "use_server"]
