"""A temporary Slurm on one machine, in a folder of its own: munge, controller and node run as plain processes.

It needs no systemd, no cgroups and no root, and changes nothing outside the folder.
"""

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
UP_WITHIN_S = 20

CONFIGURATION = """\
ClusterName=railyard
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1000,sched_interval=1
KillWait=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def program(name):
    """Daemons are in /usr/sbin, which may not be in a user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def missing():
    """Missing programs of the Debian packages munge, slurmctld, slurmd and slurm-client."""
    return [name for name in PROGRAMS if program(name) is None]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class NotUp(Exception):
    """The process that did not start, and its last output."""


def _wait(what, until, processes, logs):
    end = time.monotonic() + UP_WITHIN_S
    while not until():
        if time.monotonic() > end or any(process.poll() is not None for process in processes):
            words = [line for log in logs if log.exists() for line in log.read_text(errors="replace").splitlines()[-2:]]
            raise NotUp(f"{what} did not come up: " + " | ".join(words))
        time.sleep(0.05)


@contextlib.contextmanager
def running(folder, cpus=2):
    """Yields the path of slurm.conf. @throws NotUp"""
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    folder.chmod(0o755)
    controller_port, node_port = free_ports(2)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(user=getpass.getuser(), folder=folder, controller_port=controller_port, node_port=node_port, cpus=cpus))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # uses no cgroups; autodetect requires a mounted one
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    environment = os.environ | {"SLURM_CONF": str(configuration)}
    log = open(folder / "output.log", "wb")
    processes = []

    def start(name, *arguments):
        processes.append(subprocess.Popen([program(name), *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                                          start_new_session=True))

    def answer(*command):
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    logs = [folder / "output.log", folder / "munged.log", folder / "slurmctld.log", folder / "slurmd.log"]
    try:
        start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
              f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed", "--num-threads=2")
        _wait("munged", (folder / "munge.socket").exists, processes, logs)
        start("slurmctld", "-D", "-i", "-f", str(configuration))
        start("slurmd", "-D", "-N", "localhost", "-f", str(configuration))
        _wait("Slurm", lambda: answer("sinfo", "--noheader", "--format=%t").strip() == "idle", processes, logs)
        yield configuration
    finally:
        subprocess.run(["scancel", f"--user={getpass.getuser()}"], env=environment, check=False, capture_output=True)
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.close()
