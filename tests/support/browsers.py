"""A browser for the tests of pages, and the scripts that read them."""

import json
import shutil

import pytest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = By = Keys = None

PROGRAMS = {
    "chromium": shutil.which("chromium"),
    "chromium-driver": shutil.which("chromedriver"),
    "python3-selenium": webdriver,
}
MISSING = [package for package, found in PROGRAMS.items() if not found]
needed = pytest.mark.skipif(bool(MISSING), reason=f"missing Debian packages: {', '.join(MISSING)}")

FACTORS = {"s": 1, "ms": 1e3, "us": 1e6}
PHONE, DESKTOP = (390, 844), (1280, 900)
CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
  .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (color) => { const [r, g, b] = channels(color); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (a, b) => {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const paper = getComputedStyle(document.body).backgroundColor;
const found = [];
for (const text of document.querySelectorAll("svg text")) {
  const box = text.previousElementSibling;
  const inside = text.matches(".inside");  // a slot; its label repeats the table, so 4 will do
  const over = /^t\\d$/.test(text.getAttribute("class") || "") || (box && box.matches(".device")) || inside;
  const ground = over ? getComputedStyle(box).fill : paper;
  found.push([contrast(getComputedStyle(text).fill, ground) * (inside ? 4.5 / 4 : 1), text.textContent]);
}
for (const note of document.querySelectorAll(".note")) found.push([contrast(getComputedStyle(note).color, paper), "note"]);
found.push([contrast(getComputedStyle(document.querySelector("nav a")).color, paper), "link"]);
return found;
"""
LOOKS = """
return [...document.querySelectorAll(".legend")].map((legend) => [...legend.children].filter((part) => part.tagName != "text").map((part) => {
  const drawn = part.matches("g") ? part.lastChild : part, line = part.matches("g") ? part.firstChild : part;
  return [getComputedStyle(drawn).fill, drawn.getAttribute("d"), getComputedStyle(line).strokeDasharray].join(" ");
}));
"""
TICKS = """
return [...document.querySelectorAll(arguments[0] + " .axis text")].map(
  (t) => [t.textContent, +t.getAttribute("x"), +t.getAttribute("y"), t.getAttribute("text-anchor")]);
"""


class Browser:
    """A headless Chromium without network access."""

    def __init__(self, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = PROGRAMS["chromium"]
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(PROGRAMS["chromium-driver"]), options=options)
        self.driver.get("about:blank")  # the start page of the browser makes requests too

    def open(self, page, size=DESKTOP, scheme="light"):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        self.driver.get(page.as_uri())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def listen(self):
        """Console messages and requests since the last call."""
        complaints = [entry["message"] for entry in self.driver.get_log("browser")]
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return complaints, [
            message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
        ]


@pytest.fixture(name="browser", scope="module")
def fixture_browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


def expect_quiet(browser, page):
    """Presses every control: there must be no error message and no request."""
    browser.listen()
    browser.open(page)
    for summary in browser.driver.find_elements(By.CSS_SELECTOR, "main > section > details > summary"):
        summary.click()
    for mark in browser.driver.find_elements(By.CSS_SELECTOR, "a.mark")[:3]:
        browser.run("arguments[0].focus()", mark)
        mark.send_keys(Keys.ENTER)
    complaints, requests = browser.listen()
    assert complaints == [], complaints
    others = {url.split("#")[0] for url in requests} - {page.as_uri(), "data:,"}
    assert others == set(), others


def expect_readable(browser, page, size, scheme):
    """Nothing exceeds its frame, and all text has enough contrast."""
    browser.open(page, size, scheme)
    assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    outside = browser.run(
        """return [...document.querySelectorAll("svg text")].filter((t) => { const b = t.getBBox(),
      v = t.ownerSVGElement.viewBox.baseVal;
      return b.x < 0 || b.y < 0 || b.x + b.width > v.width || b.y + b.height > v.height; }).map((t) => t.textContent)"""
    )
    assert outside == []
    assert [(ratio, text) for ratio, text in browser.run(CONTRAST) if ratio < 4.5] == []
    light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


def expect_printable(browser, page):
    """Printed pages are light, have no controls, and fit the width of the paper."""
    browser.open(page, (794, 1123), "dark")  # A4
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("nav", ".controls", "main > section > details"):
        assert not browser.driver.find_element(By.CSS_SELECTOR, hidden).is_displayed(), hidden
    beyond = browser.run(
        "return [...document.querySelectorAll('svg, table')]"
        ".filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.id)"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert beyond == []
