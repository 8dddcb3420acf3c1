"""Chromium without a window, driven over the DevTools protocol through a pipe: the standard library is enough."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time

FOUND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self.write_end = os.pipe()
        self.read_end, write = os.pipe()
        words = [FOUND, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}"]
        # The protocol's descriptors are 3 and 4; far ones cannot be in the way.
        ends = fcntl.fcntl(read, fcntl.F_DUPFD, 50), fcntl.fcntl(write, fcntl.F_DUPFD, 50)
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]} {ends[0]}<&- {ends[1]}>&-', "bash", *words], pass_fds=ends,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in ends:
            os.close(end)
        os.close(read)
        os.close(write)
        self.rest, self.number, self.events = b"", 0, []

    def close(self):
        os.close(self.write_end)
        os.close(self.read_end)
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        self.send(message)
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def send(self, message):
        view = memoryview(json.dumps(message).encode() + b"\0")
        while view:
            view = view[os.write(self.write_end, view):]

    def open(self, url, width=1180, height=900, dark=False):
        return Tab(self, url, width, height, dark)


class Tab:
    """A page; `errors` are what its console and its scripts complained of, `requests` the addresses that it asked for."""

    def __init__(self, browser, url, width, height, dark):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelector('h1') !== null")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise AssertionError(f"never: {condition}")
            time.sleep(0.05)

    def press(self, key, code=None, text=None):
        common = {"key": key, "code": code or key, **dict.fromkeys(("windowsVirtualKeyCode", "nativeVirtualKeyCode"), {"Tab": 9, "Enter": 13, "ArrowDown": 40}[key])}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def _events(self):
        self.evaluate("1")  # what has happened so far is among the events then
        return [event for event in self.browser.events if event.get("sessionId") == self.session]

    @property
    def errors(self):
        found = []
        for event in self._events():
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"].get("exception", {}).get("description") or str(parameters))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(str(parameters["args"]))
        return found

    @property
    def requests(self):
        return [event["params"]["request"]["url"] for event in self._events() if event["method"] == "Network.requestWillBeSent"]
