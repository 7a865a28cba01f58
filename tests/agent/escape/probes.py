"""What a hostile job tries from inside its sandbox; runs there as `python3 probes.py`, so it needs nothing but the standard library.

Each attempt prints one line: `NAME stopped WHY` or `NAME ESCAPED WHAT`. An attempt counts as stopped only if the kernel or the
sandbox refused it, or if nothing foreign came of it.
"""

import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPTS: dict[str, Callable[[], str]] = {}
FACTS = dict(
    part.split("=", 1) for part in sys.argv[1:] if "=" in part
)  # what the test knows: pids and paths of the node
NUMBERS = {"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "ptrace": 101, "process_vm_readv": 310,
           "process_vm_writev": 311, "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298,
           "userfaultfd": 323, "io_uring_setup": 425, "open_by_handle_at": 304, "name_to_handle_at": 303, "init_module": 175,
           "finit_module": 313, "delete_module": 176, "kexec_load": 246, "reboot": 169, "swapon": 167, "acct": 163,
           "quotactl": 179, "clock_settime": 227, "settimeofday": 164, "sethostname": 170, "setns": 308, "unshare": 272,
           "syslog": 103, "kcmp": 312, "iopl": 172, "fsopen": 430, "move_mount": 429, "open_tree": 428}  # fmt: skip


class Refused(Exception):
    """The attempt was stopped, in words."""


def attempt(function: Callable[[], str]) -> Callable[[], str]:
    ATTEMPTS[function.__name__] = function
    return function


def call(name: str, *arguments: object) -> int:
    """A raw system call; Refused with the error's name."""
    answer = LIBC.syscall(NUMBERS[name], *arguments)
    if answer < 0:
        raise Refused(os.strerror(ctypes.get_errno()))
    return int(answer)


for _name, _arguments in {
    "mount": (b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    "umount2": (b"/usr", 2),
    "pivot_root": (b"/tmp", b"/tmp"),
    "chroot": (b"/tmp",),
    "ptrace": (16, 1, 0, 0),
    "process_vm_readv": (1, None, 0, None, 0, 0),
    "process_vm_writev": (1, None, 0, None, 0, 0),
    "keyctl": (0, -3, 1),
    "add_key": (b"user", b"x", b"y", 1, -3),
    "request_key": (b"user", b"x", None, -3),
    "bpf": (0, None, 0),
    "perf_event_open": (None, 0, -1, -1, 0),
    "userfaultfd": (0,),
    "io_uring_setup": (1, None),
    "open_by_handle_at": (-100, None, 0),
    "name_to_handle_at": (-100, b"/", None, None, 0),
    "init_module": (None, 0, b""),
    "finit_module": (0, b"", 0),
    "delete_module": (b"x", 0),
    "kexec_load": (0, 0, None, 0),
    "reboot": (0xFEE1DEAD, 672274793, 0, None),
    "swapon": (b"/tmp/x", 0),
    "acct": (None,),
    "quotactl": (0x800007 << 8, None, 0, None),
    "clock_settime": (0, ctypes.create_string_buffer(16)),
    "settimeofday": (ctypes.create_string_buffer(16), None),
    "sethostname": (b"owned", 5),
    "setns": (0, 0),
    "unshare": (0x10000000,),
    "syslog": (2, ctypes.create_string_buffer(64), 64),
    "kcmp": (1, 2, 0, 0, 0),
    "iopl": (3,),
    "fsopen": (b"tmpfs", 0),
    "move_mount": (-1, b"", -1, b"", 0),
    "open_tree": (-100, b"/", 1),
}.items():

    def _tried(name: str = _name, arguments: tuple[object, ...] = _arguments) -> str:
        call(name, *arguments)
        return f"{name} was allowed"

    ATTEMPTS[f"call_{_name}"] = _tried


@attempt
def clone_user_namespace() -> str:
    """clone3 hides its flags from the filter."""
    arguments = struct.pack("11Q", 0x10000000, *([0] * 3), signal.SIGCHLD, *([0] * 6))
    pid = LIBC.syscall(435, arguments, len(arguments))
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise Refused(os.strerror(ctypes.get_errno()))
    os.waitpid(pid, 0)
    return "clone3 made a user namespace"


@attempt
def become_root() -> str:
    os.setuid(0)
    return f"uid {os.getuid()}"


@attempt
def gain_by_a_setuid_program() -> str:
    for program in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp"):
        if os.path.exists(program):
            with open("/proc/self/status") as file:
                if "NoNewPrivs:\t1" in file.read():
                    raise Refused("no new privileges")
            return f"{program} would run as its owner"
    raise Refused("no setuid program, and no new privileges")


@attempt
def look_at_the_agents_files() -> str:
    with open(FACTS["secret"]) as file:
        return file.read()[:40]


@attempt
def look_at_another_tenants_folder() -> str:
    return ",".join(os.listdir(FACTS["neighbour"]))


@attempt
def read_what_users_there_are() -> str:
    with open("/etc/shadow") as file:
        return file.read()[:40]


@attempt
def climb_out_by_dots() -> str:
    os.chdir("/job")
    for _ in range(40):
        os.chdir("..")
    if os.path.exists("root") and os.listdir("root"):
        return "the node's /root"
    if os.path.exists(FACTS["secret"].lstrip("/")):
        return "the agent's folder"
    raise Refused("the top is the sandbox's own")


@attempt
def look_out_through_proc_root() -> str:
    for pid in [entry for entry in os.listdir("/proc") if entry.isdigit()]:
        place = f"/proc/{pid}/root" + FACTS["secret"]
        if os.path.exists(place):
            return place
    raise Refused("every root is the sandbox's")


@attempt
def snoop_on_other_processes() -> str:
    foreign = []
    for pid in [entry for entry in os.listdir("/proc") if entry.isdigit()]:
        with open(f"/proc/{pid}/cmdline") as file:
            words = file.read()
        if "agent" in words and "supervisor" in words:
            foreign.append(words[:60])
    if foreign:
        return ",".join(foreign)
    raise Refused("only our own are to be seen")


@attempt
def read_the_environment_of_the_first() -> str:
    with open("/proc/1/environ") as file:
        text = file.read()
    if text.strip("\0"):
        return text[:60]
    raise Refused("empty")


@attempt
def write_the_cores_pattern() -> str:
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/job/x")
    return "core_pattern"


@attempt
def pull_the_magic_key() -> str:
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("h")
    return "sysrq"


@attempt
def raise_ones_own_limits() -> str:
    if os.path.isdir("/sys/fs/cgroup") and os.listdir("/sys/fs/cgroup"):
        return "control groups are to be seen"
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    return "never chosen when memory is short"


@attempt
def leave_ones_control_group() -> str:
    for place in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs"):
        with open(place, "w") as file:
            file.write("0")
    return "moved"


@attempt
def write_the_system() -> str:
    for place in ("/usr/x", "/etc/x", "/dev/x", "/x", "/etc/job.sh", "/bin/x"):
        try:
            with open(place, "a") as file:
                file.write("x")
        except OSError:
            continue
        return place
    raise Refused("read-only")


@attempt
def read_a_disk_or_memory() -> str:
    for place in ("/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/loop0", "/dev/kmsg", "/proc/kcore"):
        try:
            with open(place, "rb") as file:
                file.read(1)
        except OSError:
            continue
        return place
    raise Refused("not there, or not readable")


@attempt
def make_a_device() -> str:
    os.mknod("/job/disk", 0o600 | 0o060000, os.makedev(8, 0))
    return "a block device"


@attempt
def reach_the_nodes_loopback() -> str:
    with socket.create_connection(("127.0.0.1", int(FACTS["port"])), timeout=1):
        return "connected"


@attempt
def reach_the_metadata_address() -> str:
    with socket.create_connection(("169.254.169.254", 80), timeout=1):
        return "connected"


@attempt
def reach_the_world() -> str:
    with socket.create_connection(("1.1.1.1", 443), timeout=1):
        return "connected"


@attempt
def send_a_datagram() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        box.sendto(b"x", ("8.8.8.8", 53))
    return "sent"


@attempt
def listen_to_the_wire() -> str:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        return "a packet socket"


@attempt
def reach_an_abstract_socket_of_the_node() -> str:
    with socket.socket(socket.AF_UNIX) as box:
        box.connect("\0" + FACTS["abstract"])
    return "connected"


@attempt
def speak_to_ones_own_supervisor() -> str:
    with socket.socket(socket.AF_UNIX) as box:
        box.connect(FACTS["socket"])
    return "connected: it could renew its own lease"


@attempt
def signal_the_agent() -> str:
    os.kill(int(FACTS["agent"]), 0)
    return "the agent can be signalled"


@attempt
def signal_everybody() -> str:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        try:
            os.kill(-1, signal.SIGWINCH)  # harmless; the test looks whether it arrived outside
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    raise Refused("only our own processes hear it")


@attempt
def type_into_the_nodes_terminal() -> str:
    import fcntl
    import termios

    with open("/dev/tty", "w") as terminal:
        fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
    return "typed"


@attempt
def keep_a_descriptor_of_ours() -> str:
    own = {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    }
    foreign = [
        name
        for name in own
        if name.startswith("/") and not name.startswith(("/job", "/dev", "/proc", "/etc/job.sh", "/usr"))
    ]
    if foreign:
        return ",".join(foreign)
    raise Refused("none")


@attempt
def share_memory_with_a_neighbour() -> str:
    key = int(FACTS["shm"])
    if LIBC.shmget(key, 0, 0) >= 0:
        return "a segment of the node"
    raise Refused(os.strerror(ctypes.get_errno()))


@attempt
def a_link_out_of_the_job() -> str:
    os.symlink(FACTS["secret"], "/job/link")
    with open("/job/link") as file:
        return file.read()[:40]


@attempt
def a_hard_link_to_the_system() -> str:
    os.link("/usr/bin/env", "/job/env")
    return "linked"


@attempt
def leave_a_program_that_is_root() -> str:
    with open("/job/root", "w") as file:
        file.write("#!/bin/sh\nid\n")
    os.chown("/job/root", 0, 0)
    return "owned by root"


@attempt
def raise_ones_priority() -> str:
    os.nice(-5)
    return "above the others"


def main() -> None:
    for name, function in ATTEMPTS.items():
        try:
            print(f"{name} ESCAPED {function()}", flush=True)
        except (OSError, Refused) as error:
            print(f"{name} stopped {error}", flush=True)


if __name__ == "__main__":
    main()
