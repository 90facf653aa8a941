#!/usr/bin/env python3
"""Looks at the console of a real cluster in a headless Chromium, and checks what people would see: an empty cluster, three nodes with load, a
node that has died; light and dark; contrast, names for what is seen, and the keyboard. Chromium is driven by its own protocol over a pipe."""

import argparse
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 60.0


class Node:
    """A server that runs."""

    def __init__(self, tyr, directory, joins, secret=None):
        command = [tyr, "server", "--json", "--log", "error", "--slow-ms", "50", "--partitions", "64", "--listen", "127.0.0.1:0", "--http"]
        command += ["127.0.0.1:0", "--segment-size", "1MiB", "--directory", str(directory)]
        command += ["--join", joins] if joins else []
        command += ["--secret-file", str(secret)] if secret else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        listening = self.event("listening")
        self.address, self.http = listening["address"], listening["http"]

    def event(self, name):
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("event") == name:
                return told
        raise SystemExit("a node has ended early")

    def view(self):
        with urllib.request.urlopen(f"http://{self.http}/console/v1/cluster", timeout=10) as answer:
            return json.load(answer)

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait()


class Chromium:
    """A page in a browser without a window."""

    def __init__(self, directory):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={directory}", "about:blank"]

        def attach():
            # The two ends may lie where the browser wants them: move them out of the way first.
            reading, writing = os.dup(to_read), os.dup(from_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(command, preexec_fn=attach, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.writer, self.reader = to_write, from_read
        self.rest, self.last, self.session, self.heard = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1360, height=900, deviceScaleFactor=1, mobile=False)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            told = self.next()
            if told.get("id") == self.last:
                if "error" in told:
                    raise SystemExit(f"{method}: {told['error']}")
                return told["result"]
            self.heard.append(told)

    def go(self, url):
        self.heard.clear()
        self.call("Page.navigate", url=url)
        while not any(told.get("method") == "Page.loadEventFired" for told in self.heard):
            self.heard.append(self.next())

    def next(self):
        while b"\0" not in self.rest:
            more = os.read(self.reader, 1 << 16)
            if not more:
                raise SystemExit("chromium has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, expression):
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise SystemExit(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def until(self, what, expression):
        """Waits until something holds on the page."""
        end = time.monotonic() + PATIENCE
        holds = f"new Promise((done) => {{ const look = () => {{ if ({expression}) done(true); else setTimeout(look, 50); }}; look(); }})"
        told = None
        while not told and time.monotonic() < end:
            told = self.ask(f"Promise.race([{holds}, new Promise((done) => setTimeout(() => done(false), 5000))])")
        check(told, f"{what}: {self.ask('document.body.innerText')}")

    def press(self, key):
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=KEYS[key], **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def dress(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.until(f"the page is {scheme}", f"document.documentElement.dataset.theme === '{scheme}'")

    def shoot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def picture(self, path):
        """The upper part of the page, small, for the documents."""
        clip = {"x": 0, "y": 0, "width": 1360, "height": 1330, "scale": 0.75}
        shot = self.call("Page.captureScreenshot", format="webp", quality=80, clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self):
        """What went wrong on the page, and what it asked of others than the node."""
        wrong = []
        for told in self.heard:
            method, parameters = told.get("method"), told.get("params", {})
            if method == "Runtime.exceptionThrown" or (method == "Log.entryAdded" and parameters["entry"]["level"] == "error"):
                wrong.append(parameters)
        return wrong

    def asked(self):
        return {told["params"]["request"]["url"] for told in self.heard if told.get("method") == "Network.requestWillBeSent"}

    def end(self):
        self.process.terminate()
        self.process.wait()


KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "End": 35}

# The lowest contrast of any text, with what it is of (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const parse = (text) => { const parts = text.match(/[\\d.]+/g).map(Number); return parts.length < 4 ? [...parts, 1] : parts; };
  const light = (color) => { const [r, g, b] = color.map((part) => { part /= 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (element) => { for (; element; element = element.parentElement) { const color = parse(getComputedStyle(element).backgroundColor); if (color[3] === 1) return color; } return [255, 255, 255, 1]; };
  let worst = [99, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
    if (!words || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(element.namespaceURI.includes("svg") ? style.fill : style.color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, `${element.tagName} ${element.className.baseVal ?? element.className}: ${words}`];
  }
  return worst;
})()"""

# What is to be clicked or looked at, and has no name.
NAMELESS = """[...document.querySelectorAll("button, select, a, svg[role=img], img, [role=region]")]
  .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.alt === "" || one.closest("label")))
  .map((one) => one.outerHTML)"""


def check(holds, what):
    if not holds:
        raise SystemExit(f"console-test: {what}")


def check_face(page, shots, name):
    """What holds of every face of the page."""
    for scheme in ("light", "dark"):
        page.dress(scheme)
        contrast, of = page.ask(CONTRAST)
        check(contrast >= 4.5, f"{name}, {scheme}: contrast {contrast:.2f} of {of}")
        page.shoot(shots / f"{name}-{scheme}.png")
    check(page.ask(NAMELESS) == [], f"{name}: without a name: {page.ask(NAMELESS)}")
    # What is wider than the page scrolls within its card.
    check(page.ask("document.documentElement.scrollWidth <= innerWidth"), f"{name}: the page scrolls sideways")


def check_keyboard(page):
    page.ask("document.activeElement.blur(); scrollTo(0, 0)")
    reached = []
    for _ in range(14):
        page.press("Tab")
        reached.append(page.ask("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
    check({"skip", "pause", "theme", "scroll"} <= set(reached) and any("cell" in one for one in reached), f"the keyboard reaches only {reached}")
    page.ask("document.querySelector('.cell').focus()")
    first = page.ask("document.getElementById('ring-detail').textContent")
    for key in ("ArrowRight", "ArrowDown"):
        page.press(key)
        after = page.ask("document.getElementById('ring-detail').textContent")
        check(first != after and after.startswith("Partition"), f"{key} goes from '{first}' to '{after}'")
        first = after
    page.ask("document.getElementById('pause').focus()")
    page.press("Enter")
    check(page.ask("document.getElementById('pause').textContent") == "Go on", "Enter does not pause")
    page.press("Enter")


def text_of(page, place):
    return page.ask(f"document.getElementById('{place}').innerText")


def run(arguments, directory, shots):
    nodes, page, load = [], None, None
    try:
        nodes.append(Node(arguments.tyr, directory / "1", None))
        nodes[0].event("ready")
        page = Chromium(directory / "chromium")
        origin = f"http://{nodes[0].http}"
        page.go(f"{origin}/console")
        page.until("one node serves", "document.getElementById('nodes').innerText.includes('✓ serves')")
        check("There is no keyspace yet" in text_of(page, "keyspaces"), "an empty cluster does not say how to begin")
        page.until("all is well", "document.getElementById('health').textContent.includes('well')")
        check_face(page, shots, "empty")

        nodes += [Node(arguments.tyr, directory / str(number), nodes[0].address) for number in (2, 3)]
        for node in nodes[1:]:
            node.event("ready")
        url = "tyr://" + ",".join(node.address for node in nodes)
        load = subprocess.Popen([arguments.load, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(load.stdout.readline() == "begun\n", "the load does not begin")
        page.until("three nodes serve", "document.getElementById('nodes').innerText.split('✓ serves').length === 4")
        page.until("the ring is whole", "document.getElementById('health').textContent.includes('well')")
        page.until("blobs are hot", "document.getElementById('hot').innerText.includes('tiles/00')")
        page.until("conflicts are seen", "document.getElementById('contended').innerText.includes('grid/sum')")
        page.until("a pin is held", "document.getElementById('pins').innerText.includes('the client at 127.0.0.1:')")
        lines = "document.querySelectorAll('#chart-throughput path').length === 2 && document.querySelector('#chart-throughput path').getAttribute('d').split('L').length > 6"
        page.until("there is something over time", lines)
        check("events" in text_of(page, "keyspaces") and "grid" in text_of(page, "keyspaces"), "keyspaces are missing")
        check(page.ask("document.querySelectorAll('.cells .cell').length") == 64, "the ring has 64 partitions")
        if page.ask("document.querySelectorAll('#slow details').length > 0"):
            page.ask("document.querySelector('#slow summary').click()")
            check(page.ask("document.querySelector('#slow details').open"), "a slow operation does not open")
        check_face(page, shots, "busy")
        if arguments.picture:
            page.dress("light")
            page.picture(arguments.picture)
        check_keyboard(page)
        views = [node.view() for node in nodes]
        check([view["seen_by"] for view in views] == [1, 2, 3], "each node tells that it is the one who has looked")
        check(all(len(view["nodes"]) == 3 and all(node["answers"] for node in view["nodes"]) for view in views), "any node shows the whole cluster")

        nodes[2].end(signal.SIGKILL)
        page.until("the dead node is told of", "/node 3 (is away|does not answer)/.test(document.getElementById('troubles').innerText)")
        page.until("it is away", "document.getElementById('nodes').innerText.includes('✕')")
        page.until("others have taken over", "document.getElementById('ring-summary').innerText.includes(' 0 unserved') && document.getElementById('troubles').innerText.includes('node 3 is away')")
        check_face(page, shots, "dead-node")
        page.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=True)
        check_face(page, shots, "narrow")

        check(page.complaints() == [], f"the page complains: {page.complaints()}")
        asked = {url for url in page.asked() if not url.startswith((origin, "about:", "data:"))}
        check(asked == set(), f"the page asks others: {asked}")
        for node in nodes[:2]:
            node.end(signal.SIGKILL)
        page.until("the page says that its node is gone", "document.getElementById('health').textContent.includes('does not answer')")
    finally:
        if load:
            load.stdin.close()
            load.terminate()
            load.wait()
        if page:
            page.end()
        for node in nodes:
            node.end(signal.SIGKILL)


def run_guarded(arguments, directory, shots):
    """Somebody signs in, and an administrator has something done."""
    secret, node, page = directory / "secret", None, None

    def tyr(*words):
        environment = {**os.environ, "TYR_STORE": f"tyr://{node.address}", "TYR_SECRET_FILE": str(secret)} if node else os.environ
        subprocess.run([arguments.tyr, *words], env=environment, check=True, stdout=subprocess.DEVNULL)

    def token(name):
        tyr("token", "create", name, "--output", str(directory / f"{name}.token"))
        return (directory / f"{name}.token").read_text().strip()

    def sign_in(text):
        page.ask(f"document.getElementById('token').value = {json.dumps(text)}; document.getElementById('enter').click()")

    def shows(what, expression):
        page.until(what, f"document.getElementById({expression}")

    try:
        tyr("secret", str(secret))
        node = Node(arguments.tyr, directory / "guarded", None, secret)
        node.event("ready")
        for words in ["keyspace create events", "keyspace create hidden", "user create ada", "grant ada read events", "user create root", "grant root administer --cluster"]:
            tyr(*words.split())
        page = Chromium(directory / "chromium-guarded")
        page.go(f"http://{node.http}/console")
        shows("it asks who comes", "'door').checkVisibility() && !document.getElementById('main').checkVisibility()")
        check(page.ask("document.activeElement.id") == "token", "the token is not where one types")
        check_face(page, shots, "door")
        sign_in("tyr1-" + "0" * 200)
        shows("it says what is wrong", "'refused').textContent.includes('not valid')")
        sign_in(token("ada"))
        shows("ada is in", "'who').textContent.includes('ada')")
        shows("her keyspace is there", "'keyspaces').innerText.includes('events')")
        check("hidden" not in page.ask("document.body.innerText"), "what she may not read is shown")
        check(page.ask("[...document.querySelectorAll('td button')].length") == 0, "she can have something done")
        page.ask("document.getElementById('leave').click()")
        shows("she is out", "'door').checkVisibility()")
        check(page.ask("sessionStorage.length === 0 && document.cookie === ''"), "something of her stays")

        sign_in(token("root"))
        shows("root is in", "'may').textContent.includes('audited')")
        page.until("there are acts", "document.querySelector('[aria-label=\"Set the quota of events\"]')")
        page.ask("document.querySelector('[aria-label=\"Set the quota of events\"]').click()")
        check(page.ask("document.getElementById('sure').open"), "it is not asked once more")
        check_face(page, shots, "sure")
        page.ask("document.getElementById('size').value = '1 MiB'; document.getElementById('yes').click()")
        shows("it was done", "'told').textContent.includes('done')")
        shows("it is seen", "'keyspaces').innerText.includes('of 1.0 MiB')")
        page.ask("document.querySelector('[aria-label=\"Drain node 1\"]').click(); document.getElementById('yes').click()")
        shows("why it is not done is said", "'told').textContent.includes('too few replicas')")
        check_face(page, shots, "administrator")
        page.go(f"http://{node.http}/console")
        shows("the tab still knows who it is", "'who').textContent.includes('root')")
        others = {url for url in page.asked() if not url.startswith((f"http://{node.http}", "about:", "data:"))}
        check(others == set(), f"the page asks others: {others}")
        wrong = [one for one in page.complaints() if "401" not in json.dumps(one) and "409" not in json.dumps(one)]
        check(wrong == [], f"the page complains: {wrong}")
    finally:
        if page:
            page.end()
        if node:
            node.end(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tyr", required=True, help="the command")
    parser.add_argument("--load", required=True, help="what keeps the cluster busy")
    parser.add_argument("--keep", type=pathlib.Path, help="where the screenshots are left")
    parser.add_argument("--picture", type=pathlib.Path, help="where a picture for the documents is written")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tyr-console-", ignore_cleanup_errors=True) as directory:
        shots = arguments.keep or pathlib.Path(directory, "shots")
        shots.mkdir(parents=True, exist_ok=True)
        run(arguments, pathlib.Path(directory), shots)
        run_guarded(arguments, pathlib.Path(directory), shots)
    print(f"console: all is seen, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
