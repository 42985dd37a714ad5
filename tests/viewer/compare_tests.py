"""Comparisons of two graphs on the page of the tape viewer, and what is listed as changed."""

import json
import pathlib
import re

from viewer_page import SOURCE, PageTest  # which looks for a browser first


class CompareTest(PageTest):
    def test_each_sentence_says_which_of_two_graphs_it_is_of(self):
        budget = "saved < 1"
        self.page("gpt", "--diff", self.sample("gpt_fused"), "--assert", budget, "--assert",
                  "saved(operation=\"softmax\") > 0")
        marks = self.texts(".badge")
        for when, sample in (("before", "gpt"), ("after", "gpt_fused")):
            saved = self.report("graph", "summary", self.sample(sample))["saved_activation_bytes"]
            self.assertIn(f"budget failed {when}: {budget} (found {saved:,})", marks)
        self.assertIn("1 budget met before", marks)
        self.assertTrue(any(mark.startswith("budget not checked after: ") and
                            'no operation matches "softmax"' in mark for mark in marks), marks)
        self.assertTrue(any(mark.startswith("lint before: 1 finding, ") for mark in marks), marks)
        self.assertIn("In short, before: ", self.text("#in-short"))
        largest = self.text("#in-short").split("In short, after: ")[1]
        self.assertNotIn("softmax", largest)
        self.assertIn(": before, ", self.text("#advice h2"))
        self.click("#strip .link")
        self.until(lambda: "In short: " in self.text("#in-short"))
        self.assertIn(f"budget failed: {budget}", self.texts(".badge")[0])

    def test_what_changed_alike_in_several_modules_is_one_row(self):
        self.page("gpt_12", state="checkpoint=layers.*")
        rows = dict(zip(self.column("change", "place"),
                        self.texts("#change [role=cell][data-key=kind]")))
        self.assertEqual(rows["layers.*.self_attn softmax.y"].split(), ["−", "removed", "×", "12"])
        total = int(self.attribute("#change [role=table]", "aria-rowcount"))
        count = sum(map(int, re.findall(r"(\d+) (?:removed|added|changed|moved)",
                                        self.text("#change h3"))))
        self.assertLess(total, count / 4)
        self.script("""[...document.querySelectorAll("#change .row")].find((row) =>
            row.textContent.includes("softmax.y")).querySelector("[data-key=what]").click()""")
        self.until(lambda: "removed: layers.*.self_attn softmax.y × 12" in self.text("#details"))
        self.assertIn("bytes kept before55,296 (54.00 KiB) each", self.text("#details .facts"))
        self.click("#details .row")
        self.until(lambda: "removed: layers.0.self_attn softmax.y" in self.text("#details h3"))

    def test_storages_from_before_that_no_figure_counts_are_clamped_as_in_the_library(self):
        file = self.changed_sample("uncounted", lambda graph: graph.update(live_before=0))
        self.page("uncounted")
        peak = self.report("graph", "peak", file)
        self.assertEqual(self.figure("peak_bytes"), peak["peak_bytes"])
        self.assertEqual(self.script("""return modules.replay.replay(modules.graph.readGraph(
            document.getElementById("graph").textContent)).unwatched;"""), 0)

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
        starred = lambda label: re.sub(r"\blayers\.\d+", "layers.*", label)
        places = [place.split(" → ")[0] for place in self.column("change", "place")]
        self.assertTrue({starred(place) for place in places} <=
                        {starred(entry["place"]) for entry in entries})
        self.assertEqual(starred(places[0]), starred(entries[0]["place"]))
        self.assertIn("after", self.column("modules", "then")[0] + self.text("#modules .head"))

    def test_what_one_of_two_graphs_does_not_know_is_unknown(self):
        for names in (("unwatched", "gpt"), ("gpt", "unwatched")):
            with self.subTest(names):
                self.page(names[0], "--diff", self.sample(names[1]))
                self.assertNotIn("NaN", self.text("#page"))
                known = f"{self.report('graph', 'summary', self.sample('gpt'))['peak_bytes']:,}"
                peaks = ["unknown" if name == "unwatched" else known for name in names]
                self.assertIn(f"Peak {peaks[0]} → {peaks[1]} bytes.", self.text("#strip"))
                self.assertIn(f"peak, bytes{peaks[0]}{peaks[1]}unknown", self.text("#comparison"))
                self.assertIn(f"after: {peaks[1]}", self.text("[data-figure=peak_bytes]"))

    def test_what_is_removed_has_not_the_colour_of_what_is_worse(self):
        self.page("gpt", state="checkpoint=layers.*")
        colours = self.script("""return ["#change .kind.removed", "#comparison .more"].map((one) =>
            getComputedStyle(document.querySelector(one)).color);""")
        self.assertNotEqual(*colours)

    def test_the_graphs_that_are_compared_are_named(self):
        self.page("gpt")
        self.one("#change input[type=file]").send_keys(self.sample("gpt_fused"))
        self.until(lambda: self.all("#comparison"))
        names = (self.sample("gpt"), "gpt_fused.json")
        self.assertEqual(self.text("#compared-files"), f"Before: {names[0]}. After: {names[1]}.")
        self.assertIn(f"Before: {names[0]}, after: {names[1]}.", self.text("#strip"))

    def test_a_second_graph_that_breaks_a_rule_of_the_reader_is_refused(self):
        flip = lambda birth: lambda graph: next(
            event for event in graph["events"] if event["birth"] == birth
            and any(other["storage"] == event["storage"] and other["birth"] != birth
                    for other in graph["events"])).update(birth=not birth)
        def unlike(table, key, value, row=1):
            return lambda graph: graph[table][row].update({key: value})
        broken = {
            "bytes is not": unlike("storages", "bytes", -4),
            "the bytes add up to more than 2^53": unlike("storages", "bytes", 2**53),
            "add up to more": unlike("storages", "bytes", 10**30),
            "the steps are not in order": lambda graph: graph["events"].insert(
                0, graph["events"].pop()) or [event.update(id=i) for i, event in
                                              enumerate(graph["events"])],
            "born twice or dies twice": flip(True), "is born twice": flip(False),
            "row 1 of nodes: id is not the row's number": unlike("nodes", "id", 0),
            "values: storage names no row of storages": unlike("values", "storage", 10**6),
            "category is not one": unlike("storages", "category", "cache"),
            "dtype is not one": unlike("values", "dtype", "f8"),
            "saved: is missing": lambda graph: graph.pop("saved"),
            "the window reaches outside": unlike("values", "offset", 10**9)}
        self.page("gpt")
        for said, change in broken.items():
            with self.subTest(said):
                file = self.changed_sample("broken", change)
                if "2^53" not in said:  # which the program can count
                    self.run_program("graph", "summary", file, codes=(2,))
                self.one("#change input[type=file]").send_keys(file)
                self.until(lambda: said in self.text("#change .problem"))
                self.assertIn("broken.json cannot be compared: ", self.text("#change .problem"))
                self.assertFalse(self.all("#comparison"))

    def test_a_comparison_with_a_second_graph_is_taken_back(self):
        for place in ("#strip", "#change .changes"):
            with self.subTest(place):
                self.page("gpt", "--diff", self.sample("gpt_fused"))
                self.assertEqual(self.text("#change h2"), "Before and after")
                self.click(f"{place} .link")
                self.until(lambda: not self.all("#comparison"))
                self.assertEqual(self.text("#change h2"), "What if")
                self.assertFalse(self.one("#strip").is_displayed())

    def test_what_differs_beyond_the_cut_of_a_cell_is_shown(self):
        slot = json.loads(pathlib.Path(self.sample("gpt")).read_text())["saved"][0]
        file = self.changed_sample("another_reason", lambda graph: graph["saved"][0].update(
            reason=slot["reason"] + " otherwise"))
        self.page("gpt", "--diff", file)
        before, after = self.texts("#change [role=cell][data-key=what] div")
        self.assertTrue(before.startswith("… ") and slot["reason"].endswith(before[2:]), before)
        self.assertEqual(after, f"→ {before} otherwise")

    def test_the_heads_of_what_changed_stand_over_their_cells(self):
        self.page("gpt", "--diff", self.sample("gpt_fused"))
        for key in ("kind", "place", "what", "bytes"):
            left, head = (self.script("return document.querySelector(arguments[0])"
                                      ".getBoundingClientRect().left",
                                      f"#change [role={role}][data-key={key}]")
                          for role in ("cell", "columnheader"))
            self.assertAlmostEqual(left, head, delta=1, msg=key)

    def test_a_change_leads_to_what_it_was_and_back(self):
        self.page("gpt", "--diff", self.sample("gpt_fused"))
        self.until(lambda: "softmax.y" in "".join(self.column("change", "place")))
        (key,) = self.script("""
            return [...document.querySelectorAll("#change .row")].filter((row) =>
              row.textContent.includes("layers.*.self_attn softmax.y"))
              .map((row) => row.dataset.key);""")
        self.click(f"#change .row[data-key='{key}'] [data-key=what]")
        self.click("#details .row")
        self.until(lambda: "removed: layers.0.self_attn softmax.y" in self.text("#details"))
        self.click("#details p .link")
        self.until(lambda: "Kept by 2 slots" in self.text("#details"))
        self.click("#details .savers .link")
        self.until(lambda: "In the second graph" in self.text("#details"))
        self.assertIn("removed: layers.0.self_attn softmax", self.text("#details"))

    def test_a_dropped_file_in_which_a_storage_is_not_live_where_it_is_read_is_refused(self):
        def free_the_weights(graph):
            slot = next(slot for slot in graph["saved"] if slot["slot"] == "y" and
                        graph["nodes"][slot["node"]]["operation"] == "softmax")
            events, storage = graph["events"], graph["values"][slot["value"]]["storage"]
            birth, death = [event for event in events if event["storage"] == storage]
            events.remove(death)
            events.insert(events.index(birth) + 1, {**death, "step": birth["step"]})
            for i, event in enumerate(events):
                event["id"] = i

        file = self.changed_sample("freed", free_the_weights)
        self.run_program("graph", "summary", file, codes=(2,))
        self.page("gpt")
        self.one("#change input[type=file]").send_keys(file)
        self.until(lambda: "freed.json cannot be compared: row " in self.text("#message"))
        self.assertIn("is not live in the step that records the node", self.text("#message"))

    def test_a_dropped_file_in_which_a_node_reads_what_it_makes_is_refused(self):
        def read_the_output(graph):
            node = graph["nodes"][3]
            node["inputs"][0] = node["output"]

        file = self.changed_sample("circle", read_the_output)
        self.run_program("graph", "summary", file, codes=(2,))
        self.page("gpt")
        self.one("#change input[type=file]").send_keys(file)
        self.until(lambda: "circle.json cannot be compared: row 3 of nodes" in self.text("#message"))
        self.assertIn("inputs names a value that this node or a later one makes",
                      self.text("#message"))

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
        for place in ("#change .problem", "#message"):
            self.until(lambda: "whatif.json cannot be compared" in self.text(place))
            self.assertTrue(self.one(place).is_displayed())
        top, bottom = self.script("""const { top, bottom } = document.getElementById("message")
            .getBoundingClientRect(); return [top, innerHeight - bottom];""")
        self.assertGreaterEqual(min(top, bottom), 0)
        self.click("#message .link")
        self.until(lambda: not self.one("#message").is_displayed())
