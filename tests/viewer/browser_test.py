#!/usr/bin/python3
"""The tape viewer in a real browser.

Figures on the page are held to what the program prints for the same graph, and what-if answers to
tests/data/whatif.json, which the library is held to as well. Exit code 77, and a line that says
why, where there is no browser.

Usage: browser_test.py --program TAPEHEAD --samples TAPEHEAD_VIEWER_SAMPLES [TEST...]
"""

import argparse
import base64
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # the sources stay as they are

from compare_tests import CompareTest  # after the line above
from drawing_tests import DrawingTest
from figures_tests import FiguresTest
from viewer_page import Browser, PageTest, number
from whatif_tests import WhatIfTest

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys


class ViewerTest(PageTest):
    # ---- tables ----

    def test_saved_tensors_are_sorted_and_filtered(self):
        self.page("gpt_12")
        kept = {row["storage"]: row for row in
                self.report("graph", "saved", self.sample("gpt_12"))["rows"]}.values()
        largest = sorted((row["retained"] for row in kept), reverse=True)
        shown = list(map(number, self.column("saved", "bytes")))
        self.assertEqual(shown, largest[:len(shown)])
        self.assertIn(f"{len(kept)} tensors of {len(kept)}", self.text("#saved-sum"))
        self.click("#saved [role=columnheader][data-key=bytes] button")
        self.until(lambda: number(self.column("saved", "bytes")[0]) == largest[-1])

        self.press("/")
        self.press("softmax\\.y")
        self.until(lambda: self.text("#saved-sum").startswith("12 tensors"))
        self.assertEqual(number(self.text("#saved-sum").split(":")[1]), 12 * 55296)
        self.assertTrue(all("softmax.y" in cell for cell in self.column("saved", "savers")))
        self.press(*[Keys.BACK_SPACE] * len("softmax\\.y"), Keys.ESCAPE)
        self.click("[data-filter=two-equal]")
        equal = len([row for row in kept
                     if len({d for d in row["shape"] if d > 1}) <
                     len([d for d in row["shape"] if d > 1])])
        self.until(lambda: self.text("#saved-sum").startswith(f"{equal} tensors"))

    def test_a_pattern_that_is_no_regular_expression_is_taken_as_text(self):
        self.page("gpt", state="query=softmax.y(")
        self.assertIn("0 tensors", self.text("#saved-sum"))
        self.assertEqual(self.text("#search-problem"),
                         "no regular expression: searched as plain text")
        self.page("gpt", state="query=softmax.y")
        self.assertEqual(self.text("#search-problem"), "")

    def test_an_address_with_unknown_names_is_told(self):
        self.page("gpt", state="colour=kind&checkpoints=layers.0&selcet=node:1")
        self.assertIn("left out: checkpoints, selcet.", self.text("#message"))
        self.assertTrue(self.one("#message").is_displayed())
        self.click("#message .link")
        self.until(lambda: not self.one("#message").is_displayed())
        for state in ("sort=nothing", "tape=layers,layers.0", "only=odd", "colour=odd",
                      "range=9-3", "range=0-999999"):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.assertIn(f"left out: {state}.", self.text("#message"))
        self.page("gpt", state="colour=kind&range=3-9&checkpoint=layers.0&sizes=B=8&sort=-why&"
                               "only=pins&tape=layers&tape=layers.0")
        self.assertFalse(self.one("#message").is_displayed())

    def test_the_keys_go_from_the_search_to_the_rows(self):
        at = "return document.activeElement.closest('#saved .view') !== null"
        for keys in ([Keys.ARROW_DOWN], [Keys.ENTER], [Keys.TAB, Keys.ENTER]):
            with self.subTest(len(keys)):
                self.page("gpt")
                self.press("/")
                self.press("softmax")
                self.press(*keys)
                self.until(lambda: self.script(at))
                self.press(Keys.ENTER)
                self.until(lambda: "select=storage" in self.driver.current_url)

    def test_an_address_that_selects_what_the_graph_has_not_is_told(self):
        for key in ("node:99999", "module:nothing", "nothing"):
            with self.subTest(key):
                self.page("gpt", state=f"select={key}")
                self.assertEqual(self.text("#details .problem"),
                                 f'The page has nothing that is called "{key}".')
        self.page("gpt")
        self.assertFalse(self.all("#details .problem"))

    def test_a_selected_storage_tells_its_savers_and_why(self):
        self.page("gpt")
        rows = self.report("graph", "saved", self.sample("gpt"))["rows"]
        softmax = next(row for row in rows if row["operation"] == "softmax")
        storage = softmax["storage"]
        self.click(f"#saved [data-key='storage:{storage}'] [data-key=savers]")
        self.until(lambda: f"storage {storage}" in self.text("#details"))
        details = self.text("#details")
        for row in (row for row in rows if row["storage"] == storage):
            self.assertIn(row["label"], details)
            self.assertIn(row["reason"], details)
        self.assertIn(f"{softmax['retained']:,}", details)
        self.assertIn(f"select=storage%3A{storage}", self.driver.current_url)
        self.press(Keys.ESCAPE)
        self.until(lambda: "Click a module" in self.text("#details"))
        self.driver.back()
        self.until(lambda: f"storage {storage}" in self.text("#details"))

    def test_an_operation_tells_which_of_its_inputs_nobody_needs_any_more(self):
        graph = json.loads(pathlib.Path(self.sample("gpt")).read_text())
        node = next(node for node in graph["nodes"] if node.get("donatable") == [0])
        self.page("gpt", state=f"select=node:{node['id']}")
        reads = self.all("#details ul")[0].text
        self.assertTrue(reads.endswith(", donatable: nobody else needs it any more"), reads)

    def test_what_is_under_the_pointer_is_shown_until_it_moves_on(self):
        self.page("gpt", state="select=node:0")
        pinned = self.text("#details h3")
        storage = self.attribute("#saved .row", "data-key").split(":")[1]
        for selector, title in (("#saved .row", f"storage {storage}"),
                                ("#modules [data-key='module:layers.0-1']", "layers.0-1"),
                                ("#tape .box[data-key='module:layers']", "layers")):
            with self.subTest(selector):
                self.hover(selector)
                self.until(lambda: title in self.text("#preview"))
                self.assertFalse(self.one("#details > .details-body").is_displayed())
                self.hover("#details h2")
                self.until(lambda: self.text("#preview") == "")
                self.assertTrue(self.one("#details > .details-body").is_displayed())
                self.assertEqual(self.text("#details h3"), pinned)
        self.assertTrue(self.driver.current_url.endswith("#select=node:0"))
        self.click("#tape .box[data-key='module:layers']")
        self.until(lambda: self.text("#details h3") == "layers")
        self.assertEqual(self.text("#preview"), "")

    def test_what_the_keyboard_is_at_is_shown_like_what_is_under_the_pointer(self):
        self.page("gpt")
        self.script("document.querySelector('#modules .view').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.until(lambda: "token_embedding" in self.text("#preview"))
        self.assertNotIn("select=", self.driver.current_url)
        self.script("document.querySelector('#tape .box').focus()")
        for _ in range(3):
            self.press(Keys.TAB)
        self.assertEqual(self.script("return document.activeElement.dataset.key"), "module:layers")
        self.until(lambda: self.text("#preview h3") == "layers")
        self.press(Keys.ENTER)
        self.until(lambda: self.text("#details h3") == "layers")

    def hover(self, selector):
        element = self.one(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).perform()

    def test_what_the_filters_leave_is_copied(self):
        self.page("gpt", state="query=softmax%5C.y")
        rows = [row for row in self.report("graph", "saved", self.sample("gpt"))["rows"]
                if row["slot"] == "y" and row["operation"] == "softmax"]
        self.script("""Object.defineProperty(navigator, "clipboard",
            { value: { writeText: async (text) => { window.copied = text; } } });""")
        as_csv, as_json = self.all("#saved .line button.small")
        as_json.click()
        copied = json.loads(self.until(lambda: self.script("return window.copied")))
        self.assertEqual([(row["bytes"], row["shape"]) for row in copied],
                         [(row["retained"], row["shape"]) for row in rows])
        as_csv.click()
        self.until(lambda: self.script("return window.copied[0]") == "b")
        table = list(csv.DictReader(io.StringIO(self.script("return window.copied"))))
        self.assertEqual([row["savers"] for row in table],
                         [" ".join(row["savers"]) for row in copied])
        self.script("delete navigator.clipboard.writeText")
        as_json.click()
        self.until(lambda: self.all("textarea.copy-box"))

    def test_only_the_rows_in_sight_are_elements(self):
        self.page("gpt_12")
        count = len(self.all("#saved .row"))
        self.assertGreater(number(self.text("#saved-sum")), 2 * count)
        self.script("document.querySelector('#saved .view').scrollTop = 1e6")
        last = number(self.text("#saved-sum"))
        self.until(lambda: self.all(f"#saved .row[aria-rowindex='{last}']"))
        self.assertLess(len(self.all("#saved .row")), 2 * count)

    def test_modules_fold_and_unfold(self):
        self.page("gpt_12")
        before = self.column("modules", "name")
        self.assertIn("▸self_attn", before)
        self.click("#modules [data-key='module:layers.0-11.self_attn'] .fold")
        self.until(lambda: "reshape#1 × 12" in self.column("modules", "name"))
        self.click("#modules [data-key='module:layers.0-11.self_attn'] .fold")
        self.until(lambda: self.column("modules", "name") == before)
        self.click("#modules [data-key='module:layers.0-11'] .repeats")
        self.until(lambda: self.all("#modules [data-key='module:layers.0']"))
        self.click("#modules [data-key='module:layers'] .fold")
        self.until(lambda: len(self.column("modules", "name")) < 8)

    def test_the_modules_have_a_total_and_tell_of_the_columns_that_they_have(self):
        self.set_width(1280)
        self.page("gpt_12")
        totals = self.texts("#modules .row[data-key='module:'] [role=cell]")
        summary = self.report("graph", "summary", self.sample("gpt_12"))
        self.assertEqual(totals[0], "total")
        self.assertEqual([number(totals[1]), number(totals[2])],
                         [summary["operations"], summary["saved_activation_bytes"]])
        about = self.text("#modules .about")
        self.assertIn('"shared" repeats it, uncounted', about)
        self.assertNotIn("transient", about)
        self.assertFalse(self.all("#modules [data-key=transient]"))
        self.set_width(2560)
        self.until(lambda: self.all("#modules [data-key=transient]"))
        self.assertIn('"transient at most"', self.text("#modules .about"))

    def test_a_folded_row_of_which_one_is_a_checkpoint_is_undecided(self):
        box = "#modules [data-key='module:layers.0-1'] input"
        for state, looks in (("checkpoint=layers.0", [False, True]), ("", [False, False]),
                             ("checkpoint=layers.0&checkpoint=layers.1", [True, False]),
                             ("checkpoint=layers.*", [True, False])):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.assertEqual(self.script("const box = document.querySelector(arguments[0]);"
                                             "return [box.checked, box.indeterminate]", box),
                                 looks)

    def test_rows_are_reached_by_keys(self):
        self.page("gpt")
        self.script("document.querySelector('#modules .view').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.until(lambda: "token_embedding" in self.text("#details h3"))

    def test_a_module_shows_what_lies_in_none_below_it(self):
        self.page("gpt_12")
        modules = self.report("graph", "summary", self.sample("gpt_12"))["modules"]
        layers = next(module for module in modules if module["name"] == "layers")["children"][0]
        below = layers["children"]
        own = "#modules [data-key='own:layers.0-11']"
        self.assertIn("(own)", self.text(f"{own} [data-key=name]"))
        for cell, key in (("[data-key=operations]", "operations"),
                          ("[data-key=activations] div", "saved_activation_bytes")):
            self.assertEqual(number(self.text(f"{own} {cell}")),
                             layers[key] - sum(module[key] for module in below))
        self.click(f"{own} .fold")
        self.until(lambda: "gelu × 12" in self.column("modules", "name"))

    def test_escape_ends_the_comparison_with_a_second_graph(self):
        self.page("gpt", "--diff", self.sample("gpt_fused"))
        self.assertTrue(self.all("#comparison"))
        self.press(Keys.ESCAPE)
        self.until(lambda: not self.all("#comparison"))

    def test_a_wide_page_has_no_hole_beside_the_question_before_there_is_an_answer(self):
        self.set_width(2560)
        widths = lambda: [round(self.one(f"#{panel}").rect["width"])
                          for panel in ("timeline", "change", "modules")]
        self.page("gpt")
        timeline, change, modules = widths()
        self.assertEqual([change, modules], [timeline, timeline])
        self.page("gpt", state="checkpoint=layers.*")
        timeline, change, modules = widths()
        self.assertLess(change + modules, timeline)

    def test_a_narrow_page_does_not_move_sideways(self):
        for width in (780, 600, 400):
            self.set_width(width)
            self.page("gpt", state="checkpoint=layers.*")
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)

    def test_the_header_is_one_line_however_long_the_title_is(self):
        self.set_width(1280)
        for title in ("graph.json", "Gpt, 12 layers: one step", "a/very/long/path" * 20):
            with self.subTest(title):
                self.page("gpt", "--sizes", "B=8", "T=24", "h=3", "--title", title)
                heights, whole = self.script("""
                    const header = document.querySelector("header");
                    const boxes = [...header.children].map((one) => one.getBoundingClientRect())
                      .filter(({ height }) => height > 0);
                    return [[Math.max(...boxes.map(({ top }) => top)),
                      Math.min(...boxes.map(({ bottom }) => bottom))],
                      header.querySelector("h1").title];""")
                self.assertLess(*heights)  # all stand beside one another
                self.assertEqual(whole, title)

    def test_the_details_stand_below_all_lines_of_the_header(self):
        self.set_width(1280)
        self.page("gpt_12", state="checkpoint=layers.0&fuse=layers.1.self_attn&"
                                  "recompute=cross_entropy.logits&select=step%3A67")
        self.script("scrollTo(0, 1500)")
        place = """return [document.querySelector("header").getBoundingClientRect().bottom,
            document.querySelector("#details h2").getBoundingClientRect().top];"""
        self.until(lambda: self.script("return scrollY") > 1000)
        header, heading = self.script(place)
        self.assertGreater(header, 60)  # more lines than one
        self.assertGreaterEqual(heading, header)
        self.one("#details [aria-label='close (Esc)']").click()
        self.until(lambda: "select=" not in self.driver.current_url)

    def test_the_details_stand_below_the_header_at_the_page_s_end(self):
        self.set_width(1280)
        self.page("gpt_12", state="select=module:layers.0-11")
        self.script("scrollTo(0, 1e6)")
        self.until(lambda: self.script(
            "return scrollY + innerHeight >= document.documentElement.scrollHeight - 1"))
        header, details = self.script("""
            return [document.querySelector("header").getBoundingClientRect().bottom,
              document.querySelector("#details").getBoundingClientRect().top];""")
        self.assertGreaterEqual(details, header)

    def test_a_very_long_name_widens_nothing(self):
        name = "n" * 100000
        self.changed_sample("long", lambda graph: [
            node.update(module=node["module"].replace("layers", name)) for node in graph["nodes"]])
        self.set_width(1280)
        for state in ("", f"checkpoint={name[:50000]}*"):
            self.page("long", state=state)
            self.until(lambda: self.attribute("#candidates", "data-done"))
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), 1280)
            heights = {panel: self.one(panel).rect["height"]
                       for panel in ("header", "#figures", "#advice", "#change")}
            self.assertLess(max(heights.values()), 2500, heights)

    def test_escape_clears_the_search_then_the_selection_then_the_last_change(self):
        self.page("gpt", state="select=node:0&checkpoint=layers.0&fuse=layers.1")
        self.press("/")
        self.press("gelu")
        self.until(lambda: "query=gelu" in self.driver.current_url)
        left = ["query", "select", "fuse", "checkpoint"]
        while left:
            self.press(Keys.ESCAPE)
            gone = left.pop(0)
            self.until(lambda: f"{gone}=" not in self.driver.current_url)
            for name in left:
                self.assertIn(f"{name}=", self.driver.current_url)
        self.assertIn("clears the search, closes the details", self.text("#details .keys"))

    def test_the_page_stays_where_it_is_when_its_address_has_no_state_left(self):
        for state in ("checkpoint=layers.0", "select=node:0", "query=gelu"):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.script("scrollTo(0, 300)")
                before = self.script("return scrollY")
                self.assertGreater(before, 0)
                self.press(Keys.ESCAPE)
                self.until(lambda: "=" not in self.driver.current_url)
                # What stands above may have become lower by the change's answer.
                self.assertGreater(self.script("return scrollY"), before / 2)

    # ---- timeline ----

    def test_the_peak_lists_what_is_live_there(self):
        self.page("gpt_12")
        peak = self.report("graph", "peak", self.sample("gpt_12"))
        self.click("#peak")
        self.until(lambda: self.all("#live .row"))
        self.assertEqual(number(self.text("#step-live")), peak["peak_bytes"])
        self.assertIn(": the peak", self.text("#details h3"))
        self.assertIn("Workspace is no category", self.text("#timeline"))
        self.assertEqual(self.attribute("#live", "aria-rowcount"), str(len(peak["live"])))
        shown = list(zip(map(number, self.column("live", "bytes")), self.column("live", "why")))
        self.assertGreater(len(shown), 10)
        self.assertEqual(shown, [(row["bytes"], row["reason"]) for row in peak["live"]]
                         [:len(shown)])

    def test_arrow_keys_move_from_step_to_step(self):
        self.page("gpt", state="select=step:9")
        self.press(Keys.ARROW_RIGHT)
        self.until(lambda: "step 10," in self.text("#details h3"))
        self.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        self.until(lambda: "step 8," in self.text("#details h3"))

    def test_a_step_out_of_sight_is_not_told_beside_the_timeline(self):
        self.page("gpt_12", state="select=step:9")
        self.assertTrue(self.text("#timeline-legend").startswith("at step 9:"))
        peak = self.report("graph", "peak", self.sample("gpt_12"))["peak_step"]
        self.script("""[...document.querySelectorAll("#timeline button")].find((button) =>
            button.textContent === "zoom to the peak").click()""")
        self.until(lambda: "range=" in self.driver.current_url)
        self.assertTrue(self.text("#timeline-legend").startswith(f"at step {peak:,}:"))
        self.assertIn("step 9,", self.text("#details h3"))

    def test_dragging_zooms_and_escape_shows_all(self):
        self.page("gpt")
        canvas = self.one("#timeline-canvas")
        self.script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        ActionChains(self.driver).move_to_element_with_offset(canvas, -100, 0) \
            .click_and_hold().move_by_offset(200, 0).release().perform()
        self.until(lambda: "range=" in self.driver.current_url)
        self.press(Keys.ESCAPE)
        self.until(lambda: "range=" not in self.driver.current_url)

    # ---- marks, safety, size ----

    def test_budgets_that_fail_and_findings_of_the_lint_are_marked(self):
        self.page("gpt", "--assert", "saved < 1", "--assert", "count(operation=\"softmax\") == 2")
        marks = self.texts(".badge")
        saved = self.report("graph", "summary", self.sample("gpt"))["saved_activation_bytes"]
        self.assertIn(f"budget failed: saved < 1 (found {saved:,})", marks)
        self.assertIn("1 budget met", marks)
        (finding,) = self.report("graph", "lint", self.sample("gpt"), codes=(1,))["findings"]
        self.assertIn(f"lint: 1 finding, {finding['freed_bytes']} bytes, "
                      f"{100 * finding['freed_bytes'] / saved:.1f} % of what is saved", marks)
        self.assertFalse(self.all(".badge.bad:not(:first-child)"))  # so little is no alarm
        self.assertIn("masked_fill", self.text("#findings"))

    def test_hostile_names_are_text(self):
        self.page("hostile", "--title", "<img src=x onerror=document.title='broken'>")
        name = json.loads(pathlib.Path(self.sample("hostile")).read_text())["nodes"][0]["module"]
        name = name.replace("\u202e", "\\u202e")  # what would turn the text round is shown
        self.assertEqual(self.one("h1").text, "<img src=x onerror=document.title='broken'>")
        self.assertNotEqual(self.driver.title, "broken")
        self.assertNotIn("\u202e", self.text("body > #page"))
        self.assertEqual(self.all("img"), [])
        self.assertEqual(len(self.all("script")), 3)
        self.assertTrue(any(name[:60] in cell for cell in self.column("saved", "why")))
        for select in ("storage:0", "node:0", "step:0", "module:" + name):
            self.script("location.hash = 'select=' + encodeURIComponent(arguments[0])", select)
            self.until(lambda: "Click a module" not in self.text("#details"))
        self.assertEqual(self.all("img"), [])

    def test_odd_addresses_do_no_harm(self):
        for state in ("select=storage:99999", "select=step:-1", "select=node:1.5",
                      "select=module:x", "select=change:7", "select=savers:x",
                      "select=constructor:0", "range=9-1", "range=0-999999", "sort=nothing",
                      "sort=constructor", "only=toString", "tape=__proto__", "checkpoint="):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.assertIn("Live memory", self.text("#timeline"))

    def test_it_prints_on_one_sheet(self):
        for state in ("", "checkpoint=layers.*"):
            with self.subTest(state):
                self.page("gpt_12", "--sizes", "B=8", "T=24", "d=12", "h=3", state=state)
                self.until(lambda: self.attribute("#candidates", "data-done"))
                sheets = self.driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27,
                                                                         "paperHeight": 11})
                self.assertEqual(base64.b64decode(sheets["data"]).count(b"/Type /Page\n"), 1)

    def test_a_window_that_grows_shows_more_columns(self):
        size = {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        self.assertEqual(self.all("#saved [data-key=formula]"), [])
        narrow = self.one("#timeline-canvas").size["width"]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "width": 2560})
        try:
            self.until(lambda: "4*B*T^2*h" in self.column("saved", "formula"))
            self.assertGreater(self.one("#timeline-canvas").size["width"], narrow)
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_ten_thousand_operations_open_and_respond(self):
        started = time.monotonic()
        self.page("gpt_340")
        opened = time.monotonic() - started
        self.assertGreater(self.figure("operations"), 10000)
        summary = self.report("graph", "summary", self.sample("gpt_340"))
        self.assertEqual(self.figure("peak_bytes"), summary["peak_bytes"])
        self.assertLess(len(self.all("*")), 3000)
        took = self.script("const start = performance.now(); location.hash = 'query=softmax';"
                           "dispatchEvent(new HashChangeEvent('hashchange'));"
                           "return performance.now() - start")
        ready = self.script("return performance.getEntriesByName('ready')[0].startTime")
        print(f"10,000 operations: {ready:.0f} ms to the page, {opened:.1f} s with its writing, "
              f"{took:.0f} ms to filter", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--samples", required=True)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        samples = pathlib.Path(folder)
        subprocess.run([arguments.samples, folder], check=True)
        PageTest.program, PageTest.samples = arguments.program, samples
        PageTest.browser = Browser(samples / "profile")
        try:
            names = [f"{case.__name__}.{name}" for name in arguments.tests
                     for case in (ViewerTest, FiguresTest, CompareTest, DrawingTest, WhatIfTest)
                     if hasattr(case, name)]
            done = unittest.main(argv=["browser_test.py", *names], exit=False)
        finally:
            PageTest.browser.driver.quit()
    return 0 if done.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
