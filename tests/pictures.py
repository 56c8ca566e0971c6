#!/usr/bin/env python3
"""Makes the pictures of the lab VIM's pages in docs/: a VIM with a small rack, photographed by a headless Chromium.

Usage: tests/pictures.py LAB_VIM AGENT FOLDER. `make pictures` calls it. The reports are those of the machines in
fixtures/, under several names; events and results are like those that the agent sends.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request


class Browser:
    """A headless Chromium, controlled by the DevTools protocol over two pipes."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()

        def pipes():
            # Chromium reads commands from descriptor 3 and writes its answers to 4.
            saved = os.dup(to_browser), os.dup(from_browser)
            os.dup2(saved[0], 3)
            os.dup2(saved[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.n, self.rest, self.session, self.events = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Log.enable")

    def call(self, method, **parameters):
        self.n += 1
        message = {"id": self.n, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.n:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.read, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width, scheme="light", height=800, script=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        return answer["result"].get("value")

    def picture(self, path, height=None):
        """The page from its top, at most `height` pixels of it."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "scale": 1,
                "height": min(size["height"], height or size["height"])}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        self.call("Browser.close")
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Vim:
    """A lab VIM in which nodes wait."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen(
            [program, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.base = "http://" + self.process.stdout.readline().split("http=")[1].split()[0]

    def send(self, path, body, method="POST"):
        request = urllib.request.Request(
            self.base + path, json.dumps(body).encode(), {"content-type": "application/json"}, method=method)
        try:
            return urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()}") from error

    def node(self, report, steps=(), result=None):
        name = report["node_id"]
        self.send("/v1/reports", report)
        events = [{"sequence": n + 1, "time": report["collected_at"], **step} for n, step in enumerate(steps)]
        if events:
            self.send(f"/v1/nodes/{name}/events", {"events": events})
        if result:
            self.send(f"/v1/nodes/{name}/result", result)

    def close(self):
        self.process.kill()
        self.process.wait()


def replay(agent, archive):
    """The report of a captured machine."""
    output = subprocess.run([agent, "inspect", "--format", "json", "--root", archive],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(output.stdout)


def named(report, host):
    """The machine with a host name."""
    report["os"]["hostname"] = host
    return report


def done(*stages):
    return [{"stage": stage, "state": "done"} for stage in stages]


def outcome(report, kind, stage, message, **more):
    return {"api_version": "1", "request_id": "lab-1", "node_id": report["node_id"], "outcome": kind, "stage": stage,
            "message": message, "attempts": 1, "started_at": report["collected_at"],
            "finished_at": report["collected_at"], **more}


def blocked(report):
    """The events and the result of a node that a critical finding blocks."""
    worst = next(finding for finding in report["findings"] if finding["severity"] == "critical")
    message = f"the machine is faulty: {worst['locator']}: {worst['evidence']} ({worst['code']})"
    result = outcome(report, "refused", "preflight", message, code="FINDINGS", disk_state="untouched",
                     advice="replace the part, or name it in block_except of the instruction", findings=report["findings"])
    return done("collect", "report", "instruction") + [{"stage": "preflight", "state": "failed"}], result


def fill(vim, agent, fixtures):
    """The rack of fixtures/rack and the other captured machines, in all states. Returns the id of the broken node."""
    worker = [replay(agent, f"{fixtures}/rack/worker-{name}.tar.zst") for name in ("1", "2", "3", "4-broken")]
    nodes, crowded = (replay(agent, f"{fixtures}/{name}/root.tar.zst") for name in ("many-nodes", "crowded-server"))
    start = done("collect", "report", "instruction")
    wait = [{"stage": "wait", "state": "progress", "message": "no instruction yet; asking again in 16 s"}]
    disk = {"device": "/dev/nvme0n1", "size_bytes": 1 << 30, "serial": "S64GNE0R100001"}
    message = "/dev/nvme0n1 (serial S64GNE0R100001, 1073741824 bytes) is installed and proved"
    node = named(worker[0], "worker-1")
    vim.node(node, start + done("preflight", "write", "proof", "result"),
             outcome(node, "installed", "result", message, disk_state="installed", disk=disk))
    node = named(worker[1], "worker-2")
    vim.node(node, start + done("preflight") + [{"stage": "write", "state": "progress", "percent": 62}])
    vim.node(named(worker[2], "worker-3"), done("collect", "report") + wait)
    broken = named(worker[3], "worker-4")
    vim.node(broken, *blocked(broken))
    node = named(nodes, "storage-1")
    message = "coreos-installer failed with exit status 1: /dev/vda returned an I/O error"
    vim.node(node, start + done("preflight") + [{"stage": "write", "state": "failed", "message": message}],
             outcome(node, "failed", "write", message, code="TARGET_IO", disk_state="half_written",
                     advice="check the disk, its cable and its bay"))
    vim.node(named(crowded, "storage-2"), done("collect", "report") + wait)
    return broken["node_id"]


def main(lab_vim, agent, folder):
    fixtures = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures")
    vim, browser = Vim(lab_vim), Browser()
    try:
        broken = fill(vim, agent, fixtures)
        for name, path, width, scheme, height in [
            ("vim-nodes", "/", 1100, "light", 1300),
            ("vim-node", f"/nodes/{broken}", 1100, "dark", 1250),
            ("vim-models", "/models", 1100, "light", 900),
        ]:
            browser.open(vim.base + path, width, scheme)
            file = os.path.join(folder, f"{name}.png")
            browser.picture(file, height)
            # 64 colours are enough for the pages, and make a quarter of the size.
            subprocess.run(["pngquant", "--force", "--strip", "--ext", ".png", "64", file], check=True)
            print(f"{file}: {os.path.getsize(file)} bytes")
    finally:
        browser.close()
        vim.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
