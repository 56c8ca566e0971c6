"""Memory, size and times of our agent and of ironic-python-agent, in turns, against the same small server.

The server answers what Ironic answers until the first heartbeat, and orders nothing. Each run has an empty /run with udev's
records of disks that have been there since the start, as in a live image. tests/bench-ironic.sh calls this.

Usage: bench.py OUR_PROGRAM IPA_FOLDER [ROUNDS]
"""

import http.server
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

NODE = "f2a4b2d6-95f3-4dbb-a343-a7b6d0bbbb01"
TOKEN = "t" * 43
LIMIT_S = 120
FRESH = ["unshare", "--mount", "sh", "-c", """mount -t tmpfs none /run && mkdir -p /run/udev/data
for dev in /sys/block/*/dev; do echo I:1 >"/run/udev/data/b$(cat "$dev")"; done; exec "$@" """, "sh"]
PAGE = os.sysconf("SC_PAGE_SIZE")


class Server(http.server.ThreadingHTTPServer):
    """Notes when the inventory and the first heartbeat arrive."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=None):
        text = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.path.startswith("/v1/lookup"):
            config = {"heartbeat_timeout": 300, "agent_token": TOKEN, "agent_token_required": True,
                      "tls_min_version": "1.3", "tls_cipher_suites": None, "agent_skip_bmc_detect": False,
                      "agent_md5_checksum_enable": True, "disable_deep_image_inspection": False,
                      "permitted_image_formats": ["raw"], "enable_bios_bootloader_install": False,
                      "agent_containers": {}, "metrics": {}, "metrics_statsd": {}}
            node = {"uuid": NODE, "properties": {}, "instance_info": {}, "driver_internal_info": {}, "links": []}
            return self.answer(200, {"node": node, "config": config})
        version = {"id": "v1", "links": [], "status": "CURRENT", "min_version": "1.1", "version": "1.115"}
        return self.answer(200, {"name": "OpenStack Ironic API", "versions": [version], "default_version": version,
                                 "id": "v1", "version": version})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        now = time.monotonic()
        if self.path.startswith("/v1/continue_inspection"):
            self.server.seen.setdefault("inventory", now)
            return self.answer(202, {"uuid": NODE})
        self.server.seen.setdefault("heartbeat", now)
        return self.answer(202)

    def log_message(self, *_):
        pass


def resident(group):
    """The resident memory in bytes of the processes of a process group."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group:
                total += int(fields[21]) * PAGE
        except (OSError, ValueError, IndexError):
            continue
    return total


def once(words, folder):
    """Runs an agent until a second after its first heartbeat."""
    server = Server()
    words = FRESH + [word.replace("URL", f"http://127.0.0.1:{server.server_address[1]}") for word in words]
    before = cpu_seconds()
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder}
    with open(f"{folder}/log", "wb") as log:
        started = time.monotonic()
        child = subprocess.Popen(words, cwd=folder, env=environment, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    peak = 0
    try:
        while "heartbeat" not in server.seen or time.monotonic() < server.seen["heartbeat"] + 1:
            peak = max(peak, resident(child.pid))
            if child.poll() is not None or time.monotonic() > started + LIMIT_S:
                sys.exit(f"{words[len(FRESH)]} sent no heartbeat:\n{pathlib.Path(folder, 'log').read_text()}")
            time.sleep(0.02)
        rest = resident(child.pid)
    finally:
        end(child)
        server.shutdown()
        server.server_close()
    return {"inventory": server.seen.get("inventory", float("nan")) - started,
            "heartbeat": server.seen["heartbeat"] - started, "cpu": cpu_seconds() - before, "peak": peak / 2**20, "rest": rest / 2**20}


def cpu_seconds():
    """The CPU time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end(child):
    """Ends an agent and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def size(path):
    """The bytes of a file or of all files of a folder."""
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(file.stat().st_size for file in files) / 2**20


def main(program, ipa, rounds):
    port = free_port()
    ours = [program, "install", "--backend", "ironic-agent", "--vim", "URL", "--allow-plain-http",
            "--callback-url", f"https://127.0.0.1:{port}", "--agent-port", str(port), "--bring-links-up=false"]
    theirs = [f"{ipa}/bin/ironic-python-agent", "--api_url", "URL", "--inspection_callback_url",
              "URL/v1/continue_inspection", "--inspection_dhcp_wait_timeout", "0", "--inspection_collectors", "default",
              "--listen_host", "127.0.0.1", "--advertise_host", "127.0.0.1", "--listen_port", str(port),
              "--advertise_port", str(port), "--disk_wait_attempts", "1", "--ip_lookup_attempts", "1"]
    runs = {"run-coreos-installer": [], "ironic-python-agent": []}
    for _ in range(rounds):
        for name, words in zip(runs, (ours, theirs)):
            folder = tempfile.mkdtemp(prefix="rci-bench-")
            try:
                runs[name].append(once(words, folder))
            finally:
                shutil.rmtree(folder)
    sizes = {"run-coreos-installer": size(program), "ironic-python-agent": size(f"{ipa}/lib")}
    load = os.getloadavg()[0]
    print(f"median of {rounds} runs each, in turns, on {os.cpu_count()} CPUs; load {load:.1f} at the end\n")
    print("| | start to inventory | start to first heartbeat | CPU time | peak memory | memory while it waits | size |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, found in runs.items():
        median = {key: statistics.median(run[key] for run in found) for key in found[0]}
        print(f"| {name} | {median['inventory']:.2f} s | {median['heartbeat']:.2f} s "
              f"| {median['cpu']:.2f} s | {median['peak']:.0f} MiB "
              f"| {median['rest']:.0f} MiB | {sizes[name]:.1f} MiB |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
