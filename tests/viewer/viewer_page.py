"""A page of the tape viewer in a real browser: Debian's chromium, headless, by chromium-driver.

Where there is none, importing this ends the process with exit code 77 and a line that says so.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

NO_BROWSER = 77
try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None
if not (webdriver and shutil.which("chromium") and shutil.which("chromedriver")):
    print("SKIPPED, the tape viewer is not tested: no chromium, chromium-driver or "
          "python3-selenium; tools/setup --browser installs them")
    sys.exit(NO_BROWSER)

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 300  # that anything may take on a busy machine: so long only what fails takes


def number(text):
    """ "1,234 (1.21 KiB)" as 1234. """
    return int(re.match(r"[-+]?[\d,]+", text.strip())[0].replace(",", ""))


class Browser:
    """The one browser of all tests. It notes every request and every message."""

    def __init__(self, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu",
                         "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,1000",
                         f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_script_timeout(SECONDS)
        self.driver.set_page_load_timeout(SECONDS)
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})

    def messages(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses asked for since the last call."""
        events = [json.loads(entry["message"])["message"]
                  for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events
                if event["method"] == "Network.requestWillBeSent"]


class PageTest(unittest.TestCase):
    """Opens pages of samples, acts on them and reads them. Every test ends with a look at the
    console and at what was asked of the network."""

    program = samples = browser = None

    # ---- the page ----

    def page(self, name, *options, state=""):
        """Opens the page of a sample; `state` is what stands behind # in its address."""
        file = self.samples / f"{name}.html"
        self.run_program("graph", "html", self.sample(name), "-o", file, *options)
        self.driver.get("about:blank")
        self.browser.requests()
        self.address = file.as_uri()
        self.driver.get(self.address + (f"#{state}" if state else ""))
        self.until(lambda: self.script("return document.documentElement.dataset.ready") == "yes")

    def sample(self, name):
        return str(self.samples / f"{name}.json")

    def run_program(self, *arguments, codes=(0,)):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        self.assertIn(done.returncode, codes, done.stderr)
        return done.stdout

    def report(self, *arguments, codes=(0,)):
        return json.loads(self.run_program(*arguments, "--json", codes=codes))

    @property
    def driver(self):
        return self.browser.driver

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def until(self, condition):
        end = time.monotonic() + SECONDS
        while not (found := condition()):
            self.assertLess(time.monotonic(), end, "the page does not get there")
            time.sleep(0.02)
        return found

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: self.all(selector))[0]

    def texts(self, selector):
        """What the elements show, in one step, since the page may draw them anew at any time."""
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector)

    def text(self, selector):
        """All text of the first such element, shown or not."""
        return self.until(lambda: self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => [e.textContent])[0]",
            selector))[0]

    def attribute(self, selector, name):
        """An attribute of the first such element; None where it has none of that name."""
        return self.until(lambda: self.script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(e => [e.getAttribute(arguments[1])])[0]", selector, name))[0]

    def click(self, selector):
        def clicked():
            element = self.one(selector)
            try:
                self.script("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
            except StaleElementReferenceException:  # drawn anew in between
                return False
            return True
        self.until(clicked)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def column(self, panel, key):
        """Texts of a table's column, the first line of each, as far as its rows are in sight."""
        return self.script("return [...document.querySelectorAll(arguments[0])]"
                           ".map((cell) => (cell.querySelector('div') ?? cell).textContent)",
                           f"#{panel} [role=cell][data-key={key}]")

    def figure(self, key):
        return int(self.attribute(f"[data-figure={key}] [data-value]", "data-value"))

    def set_width(self, pixels):
        """Until the test's end."""
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False})

    def changed_sample(self, name, change, sample="gpt"):
        """A sample's graph after a change of its JSON, as a sample of its own."""
        graph = json.loads(pathlib.Path(self.sample(sample)).read_text())
        change(graph)
        pathlib.Path(self.sample(name)).write_text(json.dumps(graph))
        return self.sample(name)

    def compared(self):
        """The figures before and after, of a change or of a second graph; in one step, as texts."""
        rows = self.script("""
            const numberIn = (row, name) =>
              Number(row.querySelector(`[data-${name}]`).getAttribute(`data-${name}`));
            return [...document.querySelectorAll("#comparison tr[data-figure]")].map((row) =>
              [row.getAttribute("data-figure"), numberIn(row, "now"), numberIn(row, "then")]);""")
        return {key: (now, then) for key, now, then in rows}

    def tearDown(self):
        self.assertEqual(self.browser.messages(), [], "messages in the console")
        asked = {url.split("#")[0] for url in self.browser.requests()
                 if not url.startswith("data:")}
        self.assertEqual(asked, {self.address}, "requests")
