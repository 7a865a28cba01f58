"""`./dev manage …`: one Django command with the embedded services around it; if `up` runs, with those that run already."""

import subprocess
import sys
from collections.abc import Sequence

from portal.stack import embedded, places
from portal.stack.owner import AlreadyOwned, Owner


def main(words: Sequence[str]) -> int:
    command = [sys.executable, str(places.ROOT / "manage.py"), *words]
    state = places.state_dir()
    state.mkdir(parents=True, exist_ok=True)
    if embedded.account().uid is not None:
        state.chmod(0o711)
    try:
        owner = Owner(state, about={"url": "one command"})
    except AlreadyOwned:
        return subprocess.run(command, check=False).returncode
    log_dir = state / "log"
    servers: list[embedded.Postgres | embedded.Valkey] = []
    try:
        for secret in ("secret.key", "vault.key"):
            places.kept_secret(state, secret)
        valkey = embedded.Valkey(state, socket_path=places.valkey_socket(state), log_dir=log_dir)
        postgres = embedded.Postgres(state, socket_dir=places.postgres_socket_dir(state), log_dir=log_dir)
        postgres.prepare()
        for server in (valkey, postgres):
            servers.append(server)
            server.start()
        for server in servers:
            server.wait_ready()
        postgres.provide()
        return subprocess.run(command, check=False).returncode
    except embedded.StackError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    finally:
        for server in servers:
            server.stop()
        owner.release()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
