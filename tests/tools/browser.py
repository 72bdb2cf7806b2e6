"""A headless Chromium, driven through its remote debugging pipe: needs the browser alone."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find():
    """The path of a browser, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory()
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()

        def give_pipes():
            # Chromium reads from descriptor 3 and writes to 4. Copies first: one of these may be 3 or 4 itself.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            close_fds=False, preexec_fn=give_pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.last, self.waiting, self.session = 0, b"", None
        self.messages = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.into)
        self.profile.cleanup()

    def _read(self):
        while b"\0" not in self.waiting:
            chunk = os.read(self.into, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self.waiting += chunk
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != self.last:
                self.messages.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def open(self, path, width=1280, height=900, dark=False):
        self.messages.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.media(dark=dark)
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.documentElement?.dataset.ready")

    def media(self, dark=False, printed=False):
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def wait(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise RuntimeError(f"it never came: {expression}; {self.complaints()}")
            time.sleep(0.05)
        return value

    def press(self, key, code=None, text=None):
        pressed = {"key": key, "code": code or key}
        if text:
            pressed["text"] = text
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9,
                 "Escape": 27, "Enter": 13, "PageDown": 34, "PageUp": 33}
        if key in codes:
            pressed["windowsVirtualKeyCode"] = codes[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole,
                         **({"clip": self._whole()} if whole else {}))["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def _whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def complaints(self):
        """What the page threw and what the browser had to say about it."""
        found = []
        for message in self.messages:
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                found.append(message["params"]["entry"]["text"])
        return found

    def requests(self):
        """Addresses that the page asked for, besides itself."""
        asked = [message["params"]["request"]["url"] for message in self.messages
                 if message.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "blob:", "data:"))]
