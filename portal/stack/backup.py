"""`./dev backup FOLDER` and `./dev restore FOLDER`: the embedded market into a folder, and back.

    FOLDER/base     PostgreSQL's own base backup, checked by pg_verifybackup
    FOLDER/wal      with --follow: the write-ahead log as it is written, so that what is lost at a disaster is at most the last moment
    FOLDER/files    logs, outputs, invoices (media)
    FOLDER/keys     the two secrets without which signed and encrypted things cannot be read: keep the folder as private as the state folder
    FOLDER/about.json

The database is taken first and files after it, so every file that the database names is there. Valkey and the nodes' folders are not taken: they hold no truth.
Production uses the tools of its own database and bucket (docs/operate/production.md); the order and the drill are the same.
"""

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from portal.stack import embedded, places
from portal.stack.owner import AlreadyOwned, Owner

KEYS = ("secret.key", "vault.key")
PARTS = ("base", "wal", "files", "keys")
SYNC_EVERY_S = 5.0
REPLAY_S = 3_600.0


class CannotBackUp(Exception):
    """Why not, and what to do."""


# --- taking -------------------------------------------------------------------------------------------------------------------
def prepare(folder: Path) -> None:
    """An empty folder of our own, closed to others."""
    if folder.exists() and any(folder.iterdir()):
        raise CannotBackUp(f"{folder} is not empty: name a new folder, so that no older backup is half overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / "wal").mkdir()


def take_database(postgres: embedded.Postgres, folder: Path) -> None:
    """A base backup that is whole by itself. Raises CannotBackUp."""
    base = folder / "base"
    _run(
        [postgres.bin / "pg_basebackup", "-h", postgres.socket_dir, "-U", "postgres", "-w", "-D", base, "-X", "stream", "-c", "fast"],
        "the base backup failed",
    )  # fmt: skip
    _run([postgres.bin / "pg_verifybackup", "-q", base], "the base backup is damaged")


def follow_database(postgres: embedded.Postgres, folder: Path) -> subprocess.Popen[bytes]:
    """Receives the write-ahead log until it is stopped; each piece is on disk before it is acknowledged. Start it before the base backup."""
    command = [
        postgres.bin / "pg_receivewal",
        "-h",
        postgres.socket_dir,
        "-U",
        "postgres",
        "-w",
        "-D",
        folder / "wal",
        "--synchronous",
        "--no-loop",
    ]
    receiver = subprocess.Popen([str(word) for word in command], cwd="/", preexec_fn=embedded.dies_with_parent(15))
    until = time.monotonic() + embedded.READY_S
    while not any((folder / "wal").iterdir()):  # from here on nothing escapes it
        if receiver.poll() is not None or time.monotonic() > until:
            raise CannotBackUp("the write-ahead log cannot be received; see the lines above")
        time.sleep(embedded.POLL_S)
    return receiver


def take_files(state: Path, folder: Path) -> int:
    """Copy what is not there yet; stored files never change. Returns how many were copied."""
    copied = 0
    source, target = state / "media", folder / "files"
    target.mkdir(exist_ok=True)
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        there = target / path.relative_to(source)
        if (
            path.is_file()
            and not path.is_symlink()
            and not (there.exists() and there.stat().st_size == path.stat().st_size)
        ):
            there.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copy2(path, there)
            except FileNotFoundError:
                continue  # its time was over while we copied
            copied += 1
    return copied


def take_keys(state: Path, folder: Path) -> None:
    (folder / "keys").mkdir(exist_ok=True)
    for name in KEYS:
        if (state / name).exists():
            shutil.copy2(state / name, folder / "keys" / name)


def take(state: Path, folder: Path, *, follow: bool) -> None:
    """The whole backup of a state folder whose database answers or can be started here."""
    prepare(folder)
    log_dir = state / "log"
    postgres = embedded.Postgres(state, socket_dir=places.postgres_socket_dir(state), log_dir=log_dir)
    try:
        owner = Owner(state, about={"url": "backup"})
    except AlreadyOwned:
        owner = None  # `up` runs: its database answers
    try:
        if owner is not None:
            if not (postgres.data / "PG_VERSION").exists():
                raise CannotBackUp(f"there is nothing to back up: {state} holds no database")
            postgres.start()
            postgres.wait_ready()
        began = time.monotonic()
        receiver = follow_database(postgres, folder) if follow else None
        take_database(postgres, folder)
        take_keys(state, folder)
        copied = take_files(state, folder)
        about = {
            "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "postgresql": postgres.version,
            "files": copied,
        }
        (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n")
        say(f"backed up into {folder} in {time.monotonic() - began:.1f} s: database and {copied} files")
        if receiver is not None:
            _go_on(state, folder, receiver)
    finally:
        if owner is not None:
            postgres.stop()
            owner.release()


def _go_on(state: Path, folder: Path, receiver: subprocess.Popen[bytes]) -> None:
    """Until Ctrl-C, or until the database ends."""
    say("following; Ctrl-C ends it")
    try:
        while receiver.poll() is None:
            time.sleep(SYNC_EVERY_S)
            take_files(state, folder)
    except KeyboardInterrupt:
        pass
    finally:
        if receiver.poll() is None:
            receiver.terminate()
        receiver.wait(10)
        take_files(state, folder)


# --- bringing back ------------------------------------------------------------------------------------------------------------
def restore_database(postgres: embedded.Postgres, folder: Path) -> dt.datetime | None:
    """The backup as `postgres`' data, replayed to the end of the log, and running. Returns the time of the last transaction that was replayed from the log."""
    if (postgres.data / "PG_VERSION").exists():
        raise CannotBackUp(
            f"{postgres.state} holds a database already: ./dev reset deletes it, or name another IDLEWILD_STATE_DIR"
        )
    _run([postgres.bin / "pg_verifybackup", "-q", folder / "base"], "the base backup is damaged")
    fresh = postgres.state / "data.tmp"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder / "base", fresh)
    log = fresh / "backed_up_wal"
    log.mkdir()
    for piece in sorted((folder / "wal").glob("*")):
        shutil.copy2(
            piece, log / piece.name.removesuffix(".partial")
        )  # the last piece is whole up to where the disaster came
    with (fresh / "postgresql.auto.conf").open("a") as settings:
        settings.write('restore_command = \'cp "backed_up_wal/%f" "%p"\'\n')
    (fresh / "recovery.signal").touch()
    _give(fresh, postgres.who)
    fresh.chmod(0o700)
    embedded.private_folder(postgres.socket_dir, postgres.who)
    fresh.rename(postgres.data)
    postgres.log_dir.mkdir(parents=True, exist_ok=True)
    postgres.start()
    postgres.wait_ready(REPLAY_S)
    return _wait_promoted(postgres)


def _wait_promoted(postgres: embedded.Postgres) -> dt.datetime | None:
    import psycopg

    until = time.monotonic() + REPLAY_S
    with psycopg.connect(postgres.url("postgres", "postgres"), autocommit=True) as connection:
        while connection.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
            if time.monotonic() > until:
                raise CannotBackUp("the log was not replayed in time")
            time.sleep(0.05)
        connection.execute("ALTER SYSTEM RESET restore_command")
        row = connection.execute("SELECT pg_last_xact_replay_timestamp()").fetchone()
    shutil.rmtree(postgres.data / "backed_up_wal")
    return row[0] if row else None


def restore(state: Path, folder: Path) -> None:
    """A state folder out of a backup. Nothing is touched when it cannot be."""
    missing = [part for part in PARTS if not (folder / part).is_dir()]
    if missing:
        raise CannotBackUp(f"{folder} is no backup: {', '.join(missing)} is missing")
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o711 if embedded.account().uid is not None else 0o700)
    try:
        owner = Owner(state, about={"url": "restore"})
    except AlreadyOwned:
        raise CannotBackUp("it is running: stop it with Ctrl-C first") from None
    began = time.monotonic()
    log_dir = state / "log"
    postgres = embedded.Postgres(state, socket_dir=places.postgres_socket_dir(state), log_dir=log_dir)
    try:
        last = restore_database(postgres, folder)
        shutil.copytree(folder / "files", state / "media", dirs_exist_ok=True)
        (state / "media").chmod(0o700)
        for name in KEYS:
            if (folder / "keys" / name).exists():
                shutil.copy2(folder / "keys" / name, state / name)
                (state / name).chmod(0o600)
        until = f", until {last:%Y-%m-%d %H:%M:%S}" if last else ""
        say(f"restored {state} in {time.monotonic() - began:.1f} s{until}; start it with ./dev up")
    finally:
        postgres.stop()
        owner.release()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- small steps --------------------------------------------------------------------------------------------------------------
def _run(command: Sequence[object], trouble: str) -> None:
    done = subprocess.run([str(word) for word in command], cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBackUp(f"{trouble}: {(done.stderr or done.stdout).strip()[-1000:]}")


def _give(folder: Path, who: embedded.Account) -> None:
    if who.uid is None:
        return
    for root, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(root, name), who.uid, who.gid or -1, follow_symlinks=False)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev", description="Back up the embedded market, or bring it back.")
    parser.add_argument("what", choices=["backup", "restore"])
    parser.add_argument("folder", type=lambda text: Path(text).expanduser().absolute())
    parser.add_argument(
        "--follow", action="store_true", help="backup: go on receiving the write-ahead log until Ctrl-C"
    )
    options = parser.parse_args(words)
    state = places.state_dir()
    try:
        if options.what == "backup":
            take(state, options.folder, follow=options.follow)
        else:
            restore(state, options.folder)
    except (CannotBackUp, embedded.StackError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
