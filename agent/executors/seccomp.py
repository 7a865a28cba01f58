"""The system-call filter of the sandbox, as a compiled program in a file descriptor for bubblewrap's `--seccomp`.

Default allow; what reaches for mounts, namespaces, other processes, keys, kernel or clock answers EPERM. The filter can't
see clone3's flags (they are behind a pointer), so `--disable-userns` stops those; both are needed.
"""

from __future__ import annotations

import errno
import os

try:
    import pyseccomp
except (ImportError, RuntimeError, OSError):  # no libseccomp on this machine: then no sandbox, the self-test says so
    pyseccomp = None

DENIED = [
    "mount",
    "umount2",
    "pivot_root",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "move_mount",
    "open_tree",
    "mount_setattr",
    "unshare",
    "setns",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "open_by_handle_at",
    "name_to_handle_at",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "syslog",
    "chroot",
    "vhangup",
    "nfsservctl",
    "lookup_dcookie",
    "kcmp",
]


def program() -> int:
    """A file descriptor at the start of the compiled filter; the caller closes it."""
    if pyseccomp is None:
        raise RuntimeError("libseccomp is missing (apt install libseccomp2)")
    filter_ = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    for name in DENIED:
        try:
            filter_.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (ValueError, RuntimeError, OSError):
            continue  # a call that this libseccomp or this architecture doesn't have cannot be made either
    fd = os.memfd_create("seccomp")
    with os.fdopen(os.dup(fd), "wb") as file:
        filter_.export_bpf(file)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def available() -> bool:
    return pyseccomp is not None
