#!/usr/bin/python3
"""Draws README.md's picture of the tape viewer: tools/graph/viewer/viewer.png.

Usage: picture.py --program TAPEHEAD --samples TAPEHEAD_VIEWER_SAMPLES
"""

import argparse
import base64
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the sources stay as they are

from viewer_page import SOURCE, Browser  # after the line above
from selenium.webdriver.support.ui import WebDriverWait  # which viewer_page says how to install

WIDTH, HEIGHT = 1280, 1640


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--samples", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        subprocess.run([arguments.samples, folder], check=True)
        subprocess.run([arguments.program, "graph", "html", f"{folder}/gpt_12.json", "--title",
                        "Gpt, 12 layers: one step", "-o", page, "--sizes", "B=8",
                        "T=24", "d=12", "h=3"], check=True)
        driver = Browser(f"{folder}/profile").driver
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False})
        driver.get(page.as_uri() + "#select=step:372")
        done = "return document.getElementById('candidates').dataset.done"
        WebDriverWait(driver, 60).until(lambda page: page.execute_script(done))
        picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        driver.quit()
    (SOURCE / "tools/graph/viewer/viewer.png").write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    main()
