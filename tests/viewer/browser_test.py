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

from drawing_tests import DrawingTest  # after the line above
from viewer_page import SOURCE, Browser, PageTest, number

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys


class ViewerTest(PageTest):
    # ---- figures ----

    def test_figures_are_those_of_the_summary(self):
        for name in ("attention", "encoder", "gpt_12", "gpt_fused"):
            with self.subTest(name):
                self.page(name)
                summary = self.report("graph", "summary", self.sample(name))
                for key in ("saved_activation_bytes", "peak_bytes", "parameter_bytes",
                            "gradient_bytes", "optimizer_state_bytes", "operations", "flops"):
                    self.assertEqual(self.figure(key), summary[key], key)
                self.assertIn(f"at step {summary['peak_step']:,},", self.text("#peak-link"))

    def test_modules_are_those_of_the_summary(self):
        self.page("gpt_12")
        (layers,) = [module for module in self.report("graph", "summary", self.sample("gpt_12"))
                     ["modules"] if module["name"] == "layers"]
        rows = dict(zip(self.column("modules", "name"),
                        zip(self.column("modules", "operations"),
                            self.column("modules", "activations"))))
        found = {name.strip("▸▾"): tuple(map(number, sums)) for name, sums in rows.items()}
        (run,) = layers["children"]
        self.assertEqual((run["name"], run["repeats"]), ("0-11", 12))
        for name, module in [("layers", layers), ("0-11× 12", run),
                             *((child["name"], child) for child in run["children"])]:
            self.assertEqual(found[name], (module["operations"], module["saved_activation_bytes"]))

    def test_without_a_ledger_the_page_says_so(self):
        self.page("unwatched")
        summary = self.report("graph", "summary", self.sample("unwatched"))
        self.assertEqual(self.figure("saved_activation_bytes"), summary["saved_activation_bytes"])
        self.assertIn("unknown", self.text("[data-figure=peak_bytes]"))
        self.assertIn("No ledger watched", self.text("#timeline"))

    def test_letters_stand_for_sizes(self):
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        self.assertIn("4*B*T^2*h bytes each", self.text("#savers"))
        self.assertIn("(B, h, T, T)", self.text("#saved"))
        self.assertNotIn("B", self.text("[data-figure=operations]"))
        for key in ("saved_activation_bytes", "peak_bytes", "parameter_bytes"):
            formula = self.text(f"[data-figure={key}] .formula").lstrip("= ")
            value = eval(formula.replace(",", "").replace("^", "**"), {"B": 8, "T": 24, "h": 3})
            self.assertEqual(value, self.figure(key), formula)

    def test_an_empty_tape_says_so(self):
        self.page("empty")
        self.assertEqual(self.figure("saved_activation_bytes"), 0)
        self.assertIn("Nothing is saved.", self.text("#savers"))
        self.assertIn("The tape is empty", self.text("#tape"))
        self.until(lambda: "Nothing of what was tried" in self.text("#candidates"))

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

    def test_a_selected_storage_tells_its_savers_and_why(self):
        self.page("gpt")
        rows = self.report("graph", "saved", self.sample("gpt"))["rows"]
        softmax = next(row for row in rows if row["operation"] == "softmax")
        storage = softmax["storage"]
        self.click(f"#saved [data-key='storage:{storage}'] [data-key=savers]")
        self.until(lambda: f"storage {storage}" in self.text("#details"))
        details = self.text("#details")
        for row in (row for row in rows if row["storage"] == storage):
            self.assertIn(f"{row['module']} {row['operation']}.{row['slot']}", details)
            self.assertIn(row["reason"], details)
        self.assertIn(f"{softmax['retained']:,}", details)
        self.assertIn(f"select=storage%3A{storage}", self.driver.current_url)
        self.press(Keys.ESCAPE)
        self.until(lambda: "Click a module" in self.text("#details"))
        self.driver.back()
        self.until(lambda: f"storage {storage}" in self.text("#details"))

    def test_what_the_filters_leave_is_copied(self):
        self.page("gpt", state="query=softmax%5C.y")
        rows = [row for row in self.report("graph", "saved", self.sample("gpt"))["rows"]
                if row["slot"] == "y" and row["operation"] == "softmax"]
        self.script("""Object.defineProperty(navigator, "clipboard",
            { value: { writeText: async (text) => { window.copied = text; } } });""")
        as_csv, as_json = self.all("#saved .line button")
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
        self.until(lambda: "softmax × 12" in self.column("modules", "name"))
        self.click("#modules [data-key='module:layers.0-11.self_attn'] .fold")
        self.until(lambda: self.column("modules", "name") == before)
        self.click("#modules [data-key='module:layers.0-11'] .repeats")
        self.until(lambda: self.all("#modules [data-key='module:layers.0']"))
        self.click("#modules [data-key='module:layers'] .fold")
        self.until(lambda: len(self.column("modules", "name")) < 8)

    def test_rows_are_reached_by_keys(self):
        self.page("gpt")
        self.script("document.querySelector('#modules .view').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.until(lambda: "token_embedding" in self.text("#details h3"))

    # ---- timeline ----

    def test_the_peak_lists_what_is_live_there(self):
        self.page("gpt_12")
        peak = self.report("graph", "peak", self.sample("gpt_12"))
        self.click("#peak")
        self.until(lambda: self.all("#live .row"))
        self.assertEqual(number(self.text("#step-live")), peak["peak_bytes"])
        self.assertIn(": the peak", self.text("#details h3"))
        self.assertEqual(self.one("#live").get_attribute("aria-rowcount"), str(len(peak["live"])))
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

    def test_dragging_zooms_and_escape_shows_all(self):
        self.page("gpt")
        canvas = self.one("#timeline-canvas")
        self.script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        ActionChains(self.driver).move_to_element_with_offset(canvas, -100, 0) \
            .click_and_hold().move_by_offset(200, 0).release().perform()
        self.until(lambda: "range=" in self.driver.current_url)
        self.press(Keys.ESCAPE)
        self.until(lambda: "range=" not in self.driver.current_url)

    # ---- what if ----

    def test_answers_to_what_if_questions_are_the_library_s(self):
        questions = json.loads((SOURCE / "tests/data/whatif.json").read_text())
        opened = None
        for question in questions:
            with self.subTest(**{key: question[key] for key in ("sample", "kind", "pattern")}):
                if opened != question["sample"]:
                    opened = question["sample"]
                    self.page(opened)
                self.script("document.getElementById('change-kind').value = arguments[0]",
                            question["kind"])
                self.one("#change-pattern").send_keys(question["pattern"], Keys.ENTER)
                self.until(lambda: self.all("#comparison"))
                then = {key: then for key, (_, then) in self.compared().items()}
                self.assertEqual({**then, **self.live_after(question)}, question["then"])
                self.assertEqual(self.unlike(question), [])
                self.click(".chip button")
                self.until(lambda: not self.all("#comparison"))

    def live_after(self, question):
        """Steps, and how much was live in each, as the page's simulator has it."""
        return self.script("""
            const graph = modules.graph.readGraph(document.getElementById("graph").textContent);
            const { highest } = modules.replay.replay(modules.whatif.changed(graph, [arguments[0]]));
            return { steps: highest.length,
              live_sum: highest.reduce((sum, bytes, i) => sum + (i + 1) * bytes, 0) };""", question)

    def unlike(self, question):
        """The lists of the graph after the change that are not, row by row, the library's."""
        after = self.samples / "then.json"
        self.run_program("graph", "whatif", self.sample(question["sample"]),
                         f"--{question['kind']}", question["pattern"], "--graph", after)
        return self.script("""
            const [question, text] = arguments, { readGraph } = modules.graph;
            const was = readGraph(document.getElementById("graph").textContent);
            const is = modules.whatif.changed(was, [question]), library = readGraph(text);
            const row = (fields) => Object.entries(fields).filter(([name]) => name !== "id").sort();
            const written = (list) => JSON.stringify(Array.isArray(list) ? list.map(row) : list);
            return Object.keys(library).filter((name) =>
              written(is[name]) !== written(library[name]));""", question, after.read_text())

    def test_without_a_ledger_a_checkpoint_is_that_of_the_library_too(self):
        self.page("unwatched")
        self.assertEqual(self.unlike({"sample": "unwatched", "kind": "checkpoint",
                                      "pattern": "layers.*"}), [])

    def test_a_tick_makes_a_checkpoint(self):
        self.page("gpt_12")
        self.click("#modules [data-key='module:layers.0-11'] input")
        self.until(lambda: self.all("#comparison"))
        command = self.text("#change code")
        self.assertEqual(command, "tapehead graph whatif graph.json --checkpoint 'layers.*'")
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--checkpoint", "layers.*")
        self.assertEqual(self.compared(), {key: (figure["now"], figure["then"])
                                           for key, figure in answer.items()})
        self.assertIn("checkpoint=layers.*", self.driver.current_url)
        self.click("#modules [data-key='module:layers.0-11'] input")
        self.until(lambda: not self.all("#comparison"))

    def test_changes_follow_one_another_as_on_the_command_line(self):
        state = "checkpoint=layers.1&fuse=layers.0&recompute=layers.0%20gelu.x"
        self.page("gpt", state=state)
        before = self.sample("gpt")
        for kind, pattern in (("checkpoint", "layers.1"), ("fuse", "layers.0"),
                              ("recompute", "layers.0 gelu.x")):
            after = str(self.samples / f"then-{kind}.json")
            self.run_program("graph", "whatif", before, f"--{kind}", pattern, "--graph", after)
            before = after
        answer = self.report("graph", "diff", self.sample("gpt"), before, codes=(1,))
        figures = self.compared()
        self.assertEqual(figures["peak_bytes"][1], answer["after"]["peak_bytes"])
        self.assertEqual(figures["flops"][1], answer["after"]["flops"])
        self.assertEqual(figures["saved_activation_bytes"][1],
                         answer["after"]["saved_activation_bytes"])

    def test_what_would_help_is_tried_and_offered(self):
        self.page("gpt_12")
        self.until(lambda: self.one("#candidates").get_attribute("data-done"))
        self.click("#candidates [data-change='fuse *']")
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--fuse", "*")
        self.until(lambda: self.all("#comparison"))
        self.assertEqual(self.compared()["peak_bytes"][1], answer["peak_bytes"]["then"])
        self.assertIn("What if: fused attention", self.text("#strip"))

    def test_the_answer_in_short_names_the_largest_saver_and_the_best_change(self):
        self.page("gpt_12")
        self.until(lambda: self.one("#candidates").get_attribute("data-done"))
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--checkpoint", "layers.*")
        peak, flops = answer["peak_bytes"], answer["flops"]
        self.assertIn("the most is kept by layers.*.self_attn softmax.y × 12, 663,552 (648.00 KiB) "
                      "bytes, 26.5 %, for dx = y * (g - sum(g * y)). Of what was tried, checkpoint "
                      f"layers.* brings the peak down the most, from {peak['now']:,} to "
                      f"{peak['then']:,}, for {flops['difference']:,} flops more.",
                      self.text("#in-short"))

    def test_a_change_that_cannot_be_made_says_why(self):
        for sample, kind, pattern in (("gpt", "checkpoint", "nothing"), ("gpt", "fuse", "head"),
                                      ("gpt", "recompute", "nothing"),
                                      ("gpt", "recompute", "token_embedding *"),
                                      ("borders", "checkpoint", "two")):
            with self.subTest(kind=kind, pattern=pattern):
                self.page(sample, state=f"{kind}={pattern.replace(' ', '%20')}")
                command = [self.program, "graph", "whatif", self.sample(sample), f"--{kind}",
                           pattern]
                said = subprocess.run(command, capture_output=True, text=True).stderr
                self.assertIn(said.split(": ", 2)[2].strip(), self.text("#change .problem"))

    # ---- two graphs ----

    def test_two_graphs_are_compared_as_by_graph_diff(self):
        self.page("gpt", "--diff", self.sample("gpt_fused"))
        answer = self.report("graph", "diff", self.sample("gpt"), self.sample("gpt_fused"),
                             codes=(1,))
        figures = self.compared()
        for key in ("saved_activation_bytes", "peak_bytes", "flops"):
            self.assertEqual(figures[key], (answer["before"][key], answer["after"][key]), key)
        entries = answer["slots"] + answer["nodes"]
        kinds = [entry["kind"] for entry in entries]
        title = ", ".join(f"{kinds.count(kind)} {kind}"
                          for kind in ("removed", "added", "changed", "moved"))
        self.assertIn(title, self.text("#change"))
        places = self.column("change", "place")
        self.assertEqual([place.split(" → ")[0] for place in places],
                         [entry["place"] for entry in entries][:len(places)])
        self.assertIn("after", self.column("modules", "then")[0] + self.text("#modules .head"))

    def test_a_change_leads_to_what_it_was_and_back(self):
        self.page("gpt", "--diff", self.sample("gpt_fused"))
        self.until(lambda: "softmax.y #1" in "".join(self.column("change", "place")))
        (key,) = self.script("""
            return [...document.querySelectorAll("#change .row")].filter((row) =>
              row.textContent.includes("layers.0.self_attn softmax.y #1"))
              .map((row) => row.dataset.key);""")
        self.click(f"#change .row[data-key='{key}'] [data-key=before]")
        self.until(lambda: "removed: layers.0.self_attn softmax.y #1" in self.text("#details"))
        self.click("#details p .link")
        self.until(lambda: "Kept by 2 slots" in self.text("#details"))
        self.click("#details .savers .link")
        self.until(lambda: "In the second graph" in self.text("#details"))
        self.assertIn("removed: layers.0.self_attn softmax #1", self.text("#details"))

    def test_a_file_that_is_dropped_is_compared(self):
        self.page("gpt")
        self.one("#change input[type=file]").send_keys(self.sample("gpt_fused"))
        self.until(lambda: self.all("#comparison"))
        self.until(lambda: self.compared()["flops"][0] > 0)
        least = json.loads(pathlib.Path(self.sample("gpt_fused")).read_text())
        for part in ("live_before", "packings", "steps", "events"):
            least.pop(part, None)
        for rows, name in (("nodes", "planned"), ("nodes", "recomputed"), ("saved", "packing"),
                           ("storages", "operation")):
            for row in least[rows]:
                row.pop(name, None)
        file = self.samples / "least.json"
        file.write_text(json.dumps(least))
        self.one("#change input[type=file]").send_keys(str(file))
        self.until(lambda: "peak_bytes" not in self.compared())
        self.one("#change input[type=file]").send_keys(str(SOURCE / "tests/data/whatif.json"))
        self.until(lambda: "whatif.json cannot be compared" in self.text("#change .problem"))

    # ---- marks, safety, size ----

    def test_budgets_that_fail_and_findings_of_the_lint_are_marked(self):
        self.page("gpt", "--assert", "saved < 1", "--assert", "count(operation=\"softmax\") == 2")
        marks = [mark.text for mark in self.all(".badge")]
        saved = self.report("graph", "summary", self.sample("gpt"))["saved_activation_bytes"]
        self.assertIn(f"budget failed: saved < 1 (found {saved:,})", marks)
        self.assertIn("1 budget met", marks)
        self.assertIn("lint: 1 finding", marks)
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
                      "select=module:x", "select=change:7", "select=constructor:0", "range=9-1",
                      "range=0-999999", "sort=nothing", "sort=constructor", "only=toString",
                      "tape=__proto__", "checkpoint="):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.assertIn("Live memory", self.text("#timeline"))

    def test_it_prints_on_one_sheet(self):
        for state in ("", "checkpoint=layers.*"):
            with self.subTest(state):
                self.page("gpt_12", state=state)
                self.until(lambda: self.one("#candidates").get_attribute("data-done"))
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
                     for case in (ViewerTest, DrawingTest) if hasattr(case, name)]
            done = unittest.main(argv=["browser_test.py", *names], exit=False)
        finally:
            PageTest.browser.driver.quit()
    return 0 if done.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
