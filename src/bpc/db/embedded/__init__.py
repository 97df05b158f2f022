"""A PostgreSQL of our own: the binaries of a wheel, a data directory, and somebody who looks after it.

    use(data_dir) ──► shared lock on `postgres.users` ──► ready? ──► Server
                                                     └──► start `keeper`, wait

Every process that uses the server holds a shared lock for as long as it lives; the operating system drops
it when the process ends, however it ends. The keeper, a small process of its own, is the server's parent: it
starts it again when it dies, and asks for the same lock exclusively, which it gets when the last user is gone.
"""

from bpc.db.embedded.server import Server, use

__all__ = ["Server", "use"]
