"""What-if questions and comparisons of two graphs on the page of the tape viewer."""

import json
import pathlib
import re
import subprocess
from urllib.parse import quote

from viewer_page import SOURCE, PageTest  # which looks for a browser first

from selenium.webdriver.common.keys import Keys


def figures_of(answer):
    """What `graph whatif --json` tells of each figure, now and then, as compared() gives it."""
    return {key: (told["now"], told["then"]) for key, told in answer.items()
            if isinstance(told, dict)}


class CompareTest(PageTest):
    # ---- what if ----

    def test_answers_to_what_if_questions_are_the_library_s(self):
        questions = json.loads((SOURCE / "tests/data/whatif.json").read_text())
        opened = None
        for question in questions:
            with self.subTest(**{key: question[key] for key in ("sample", "kind", "patterns")}):
                if opened != question["sample"]:
                    opened = question["sample"]
                    self.page(opened)
                self.script("document.getElementById('change-kind').value = arguments[0]",
                            question["kind"])
                for pattern in question["patterns"]:
                    self.one("#change-pattern").send_keys(pattern, Keys.ENTER)
                self.until(lambda: self.all("#comparison"))
                self.assertEqual(len(self.all(".chip")), len(question["patterns"]))
                then = {key: then for key, (_, then) in self.compared().items()}
                self.click(".changes > .link")  # so that the next question stands alone
                self.until(lambda: not self.all("#comparison"))
                self.assertEqual({**then, **self.live_after(question)}, question["then"])
                self.assertEqual(self.unlike(question), [])

    def live_after(self, question):
        """Steps, how much was live in each, and what at the peak, as the page has it."""
        return self.script("""
            const graph = modules.graph.readGraph(document.getElementById("graph").textContent);
            const then = modules.whatif.changed(graph, arguments[0]);
            const { highest, peakEvents } = modules.replay.replay(then);
            const live = modules.replay.liveStorages(then, peakEvents);
            const bytes = (category) => live.map((id) => then.storages[id])
              .reduce((sum, row) => sum + (row.category === category ? row.bytes : 0), 0);
            return { steps: highest.length,
              category_bytes: Object.fromEntries(
                modules.graph.categories.map((name) => [name, bytes(name)])),
              live_sum: highest.reduce((sum, bytes, i) => sum + (i + 1) * bytes, 0) };""",
            self.changes(question))

    def changes(self, question):
        """The question as the page's list of changes."""
        return [{"kind": question["kind"], "pattern": pattern}
                for pattern in question["patterns"]]

    def unlike(self, question):
        """The lists of the graph after the change that are not, row by row, the library's."""
        after = self.samples / "then.json"
        options = [word for pattern in question["patterns"]
                   for word in (f"--{question['kind']}", pattern)]
        self.run_program("graph", "whatif", self.sample(question["sample"]), *options, "--graph",
                         after)
        return self.script("""
            const [changes, text] = arguments, { readGraph } = modules.graph;
            const was = readGraph(document.getElementById("graph").textContent);
            const is = modules.whatif.changed(was, changes), library = readGraph(text);
            const row = (fields) => Object.entries(fields).filter(([name]) => name !== "id").sort();
            const written = (list) => JSON.stringify(Array.isArray(list) ? list.map(row) : list);
            return Object.keys(library).filter((name) =>
              written(is[name]) !== written(library[name]));""", self.changes(question),
            after.read_text())

    def test_without_a_ledger_a_checkpoint_is_that_of_the_library_too(self):
        self.page("unwatched")
        self.assertEqual(self.unlike({"sample": "unwatched", "kind": "checkpoint",
                                      "patterns": ["layers.*"]}), [])

    def test_without_a_ledger_a_checkpoint_costs_flops_too(self):
        self.page("unwatched", state="checkpoint=layers.*")
        watched = self.report("graph", "whatif", self.sample("gpt"), "--checkpoint", "layers.*")
        self.assertGreater(watched["flops"]["difference"], 0)
        self.assertEqual(self.compared()["flops"],
                         (watched["flops"]["now"], watched["flops"]["then"]))

    def test_a_tick_makes_a_checkpoint(self):
        self.page("gpt_12")
        self.click("#modules [data-key='module:layers.0-11'] input")
        self.until(lambda: self.all("#comparison"))
        command = self.text("#change code")
        self.assertEqual(command, f"tapehead graph whatif {self.sample('gpt_12')} "
                                  "--checkpoint 'layers.*'")
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--checkpoint", "layers.*")
        self.assertEqual(self.compared(), figures_of(answer))
        self.assertIn("checkpoint=layers.*", self.driver.current_url)
        self.click("#modules [data-key='module:layers.0-11'] input")
        self.until(lambda: not self.all("#comparison"))

    def test_a_tick_makes_one_of_several_slots_of_a_name_again(self):
        self.page("gpt")
        row = next(row for row in self.report("graph", "saved", self.sample("gpt"))["rows"]
                   if row["label"] == "layers.0.self_attn matmul#1.b")
        self.script("document.getElementById('search').value = ''")
        self.press("/")
        self.press("self_attn matmul#1.b")
        self.click(f"#saved [data-key='storage:{row['storage']}'] input")
        self.until(lambda: self.all("#comparison"))
        answer = self.report("graph", "whatif", self.sample("gpt"), "--recompute", row["label"])
        self.assertEqual([match["name"] for match in answer["matched"]], [row["label"]])
        self.assertEqual(self.compared(), figures_of(answer))
        self.assertIn(f"--recompute '{row['label']}'", self.text("#change code"))

    def test_what_a_question_took_and_left_is_told(self):
        self.page("gpt", state="recompute=*")
        matched = self.report("graph", "whatif", self.sample("gpt"), "--recompute", "*")["matched"]
        stay = [match["name"] for match in matched if match["stays"]]
        taken, nothing, left = self.texts("#change .note")
        self.assertEqual(taken, f"Recomputed: {len(matched) - len(stay)} slots.")
        self.assertEqual(left, f"Left as they are: {len(stay)}, as {stay[0]}: no operation that "
                               "could run again made it.")
        free = [match for match in matched if match["freed_bytes"] == 0 and
                not match["note"].startswith("counted with ")]
        self.assertEqual(nothing, f"{len(free)} slots free nothing, as {free[0]['name']}: "
                                  f"{free[0]['note']}.")

    def test_the_root_is_left_out_of_checkpoints(self):
        self.page("gpt", state="checkpoint=*")
        answer = self.report("graph", "whatif", self.sample("gpt"), "--checkpoint", "*")
        root = answer["matched"][-1]
        self.assertEqual((root["name"], root["stays"]), ("", True))
        self.assertIn(f"Left as they are: 1, as (root): {root['note']}.",
                      self.texts("#change .note"))

    def test_a_mask_that_each_checkpoint_may_make_anew_is_a_bound(self):
        self.page("gpt", state="checkpoint=layers.*.self_attn")
        matched = self.report("graph", "whatif", self.sample("gpt"), "--checkpoint",
                              "layers.*.self_attn")["matched"]
        self.assertIn("at most 576 bytes", matched[0]["note"])
        self.assertEqual(self.texts("#change .note"),  # once, as it is the same mask
                         [f"{match['name']}: {match['note']}." for match in matched
                          if match["note"]])

    def test_fused_attention_in_several_modules_is_one_question(self):
        patterns = ["layers.1", "layers.0", "layers.0.self_attn"]
        options = [word for pattern in patterns for word in ("--fuse", pattern)]
        self.page("gpt", state="&".join(f"fuse={pattern}" for pattern in patterns))
        answer = self.report("graph", "whatif", self.sample("gpt"), *options)
        self.assertEqual(self.compared(), figures_of(answer))
        self.assertEqual(self.texts("#change code"), [
            f"tapehead graph whatif {self.sample('gpt')} " +
            " ".join(f"--fuse '{pattern}'" for pattern in patterns)])

    def test_a_mask_of_which_the_kernel_may_keep_less_is_a_bound(self):
        self.page("combined", state="fuse=attn")
        (match,) = self.report("graph", "whatif", self.sample("combined"), "--fuse",
                               "attn")["matched"]
        self.assertIn("too high by at most 2,048 bytes", match["note"])  # 32 x 8 x 8
        self.assertEqual(self.texts("#change .note"), [f"{match['name']}: {match['note']}."])

    def test_flops_that_run_again_are_in_the_figure_s_change(self):
        self.page("gpt", state="checkpoint=layers.*")
        answer = self.report("graph", "whatif", self.sample("gpt"), "--checkpoint", "layers.*")
        then = self.one("[data-figure=flops] .then")
        self.assertEqual(int(then.get_attribute("data-change")), answer["flops"]["difference"])
        self.assertGreater(answer["flops"]["difference"], 0)
        self.assertIn("again in the backward pass", then.text)

    def test_parameters_that_a_checkpoint_keeps_are_named(self):
        then = self.samples / "checkpointed.json"
        self.run_program("graph", "whatif", self.sample("gpt"), "--checkpoint", "layers.*",
                         "--graph", then)
        self.page("gpt", "--diff", then)
        name = "layers.0.linear1.weight"
        entry = next(slot for slot in self.report("graph", "diff", self.sample("gpt"), then,
                                                  codes=(1,))["slots"]
                     if slot["place"].startswith("layers.0 checkpoint.p") and slot["name"] == name)
        ids = self.script("""const { diff } = modules.diff, { readGraph } = modules.graph;
            const graph = (id) => readGraph(document.getElementById(id).textContent);
            return diff(graph("graph"), graph("other")).slots.findIndex(({ place, name }) =>
              place === arguments[0] && name === arguments[1]);""", entry["place"], name)
        self.script("location.hash = arguments[0]", f"select=change:{ids}")
        self.until(lambda: name in self.text("#details .facts"))

    def test_changes_follow_one_another_as_on_the_command_line(self):
        state = "checkpoint=layers.1&fuse=layers.0&recompute=layers.0%20gelu.x"
        self.page("gpt", state=state)
        before = self.sample("gpt")
        # A checkpoint hides what is in it, so the page asks for it last.
        changes = (("fuse", "layers.0"), ("recompute", "layers.0 gelu.x"),
                   ("checkpoint", "layers.1"))
        self.assertEqual([code.text.split("json ")[1].split(" --graph")[0]
                          for code in self.all("#change code")],
                         [f"--{kind} '{pattern}'" for kind, pattern in changes])
        for kind, pattern in changes:
            after = str(self.samples / f"then-{kind}.json")
            self.run_program("graph", "whatif", before, f"--{kind}", pattern, "--graph", after)
            before = after
        answer = self.report("graph", "diff", self.sample("gpt"), before, codes=(1,))
        figures = self.compared()
        self.assertEqual(figures["peak_bytes"][1], answer["after"]["peak_bytes"])
        self.assertEqual(figures["flops"][1], answer["after"]["flops"])
        self.assertEqual(figures["saved_activation_bytes"][1],
                         answer["after"]["saved_activation_bytes"])

    def test_a_module_ticked_inside_a_checkpoint_is_said_to_be_in_it(self):
        options = ["--checkpoint", "layers.0", "--checkpoint", "layers.0.self_attn"]
        answer = self.report("graph", "whatif", self.sample("gpt"), *options)
        for state in ("checkpoint=layers.0&checkpoint=layers.0.self_attn",
                      "checkpoint=layers.0.self_attn&checkpoint=layers.0"):
            with self.subTest(state):
                self.page("gpt", state=state)
                self.assertEqual(self.compared(), figures_of(answer))
                self.assertIn("layers.0.self_attn is already inside the checkpoint layers.0.",
                              self.texts("#change .note"))
                self.assertFalse(self.one("#change .problem").is_displayed())
                for _, pattern in (part.split("=") for part in state.split("&")):
                    self.assertIn(f"--checkpoint '{pattern}'", self.text("#change code"))

    def test_what_would_help_is_tried_and_offered(self):
        self.page("gpt_12")
        self.until(lambda: self.one("#candidates").get_attribute("data-done"))
        uncounted = "fused attention makes q k^T again in its backward pass: not counted"
        self.assertEqual(self.text("#candidates").count(uncounted), 1)
        self.click("#candidates [data-change='fuse *']")
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--fuse", "*")
        self.until(lambda: self.all("#comparison"))
        self.assertEqual(self.compared()["peak_bytes"][1], answer["peak_bytes"]["then"])
        self.assertIn("What if: fused attention", self.text("#strip"))
        self.assertIn(uncounted, self.text("#change"))

    def test_the_answer_in_short_names_the_largest_saver_and_the_best_change(self):
        self.page("gpt_12")
        self.until(lambda: self.one("#candidates").get_attribute("data-done"))
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--checkpoint", "layers.*")
        peak, flops = answer["peak_bytes"], answer["flops"]
        self.assertIn("the most is kept by layers.*.self_attn softmax.y × 12, 663,552 bytes "
                      "(648.00 KiB), 26.5 %, for dx = y * (g - sum(g * y)). Of what was tried, "
                      f"checkpoint layers.* brings the peak down the most, from {peak['now']:,} to "
                      f"{peak['then']:,}, for {flops['difference']:,} flops more.",
                      self.text("#in-short"))

    def test_the_answer_in_short_names_all_that_keep_as_much(self):
        graph = json.loads(pathlib.Path(self.sample("gpt")).read_text())
        storages = {value["id"]: value["storage"] for value in graph["values"]}
        for slot in graph["saved"]:
            node = graph["nodes"][slot["node"]]
            if node["operation"] == "gelu" or node["module"].endswith("linear2"):
                graph["storages"][storages[slot["value"]]]["bytes"] = 55296
        pathlib.Path(self.sample("alike")).write_text(json.dumps(graph))
        self.page("alike")
        self.assertRegex(self.text("#in-short"), r"three kinds of tensors keep the most, each kind "
                         r"110,592 bytes \(108.00 KiB\) \([\d.]+ % of all\): "
                         r"layers.\*.self_attn softmax.y \(2 tensors\), for ")
        self.assertEqual(self.texts("#in-short .link")[:3],
                         ["layers.*.self_attn softmax.y", "layers.* gelu.x",
                          "layers.*.linear2 linear.x"])

    def test_a_pattern_of_blanks_is_told_as_an_empty_one_is(self):
        for blanks in ("", "   "):
            with self.subTest(blanks):
                self.page("gpt")
                self.script("""document.getElementById("change-pattern").addEventListener(
                    "invalid", ({ target }) => { target.dataset.told = target.value === ""; })""")
                self.one("#change-pattern").send_keys(blanks, Keys.ENTER)
                self.assertEqual(self.one("#change-pattern").get_attribute("data-told"), "true")
                self.assertFalse(self.all(".chip"))

    def test_a_change_that_cannot_be_made_says_why(self):
        text = pathlib.Path(self.sample("gpt")).read_text()
        named = text.replace('"layers.0.', '"blöcke' + "\\u0007 und so weiter" * 4 + ".")
        pathlib.Path(self.sample("long_names")).write_text(named)
        for sample, kind, pattern in (("gpt", "checkpoint", "nothing"), ("gpt", "fuse", "head"),
                                      ("gpt", "recompute", "nothing"),
                                      ("gpt", "recompute", "token_embedding *"),
                                      ("gpt", "recompute", "layer.? sof?max*"),
                                      ("empty", "checkpoint", "*"), ("gpt", "checkpoint", ""),
                                      ("gpt", "checkpoint", "(root)"),
                                      ("gpt", "recompute", ""),
                                      ("long_names", "fuse", "blocke*attn"),
                                      ("long_names", "recompute", "weiter " * 24),
                                      ("borders", "checkpoint", "two")):
            with self.subTest(kind=kind, pattern=pattern):
                self.page(sample, state=f"{kind}={quote(pattern)}")
                command = [self.program, "graph", "whatif", self.sample(sample), f"--{kind}",
                           pattern]
                said = subprocess.run(command, capture_output=True, text=True).stderr
                self.assertIn(said.split(": ", 2)[2].strip(), self.text("#change .problem"))

    def test_a_change_that_cannot_be_made_leaves_the_others(self):
        self.page("gpt", state="checkpoint=layers.*")
        then = self.compared()
        box = lambda: self.one("#change-pattern")
        box().send_keys("laers.0", Keys.ENTER)
        self.until(lambda: 'no module matches "laers.0"; the nearest names are layers.0,'
                   in self.text("#change .problem"))
        self.assertEqual(box().get_attribute("value"), "laers.0")
        self.assertEqual((self.texts(".chip span"), self.compared()),
                         (["checkpoint layers.*"], then))
        self.assertNotIn("laers", self.driver.current_url)
        box().clear()
        box().send_keys("head", Keys.ENTER)
        self.until(lambda: len(self.all(".chip")) == 2)
        self.assertFalse(self.one("#change .problem").is_displayed())
        self.assertEqual(box().get_attribute("value"), "")

    def test_an_address_with_a_change_that_cannot_be_made_makes_the_others(self):
        self.page("gpt", state="checkpoint=layers.*")
        then = self.compared()
        self.page("gpt", state="checkpoint=laers.0&checkpoint=layers.*")
        self.assertEqual(self.compared(), then)
        self.assertEqual(self.texts(".chip.refused span"), ["checkpoint laers.0"])
        self.assertIn("What if: checkpoint layers.*.", self.text("#strip"))
        self.click(".chip.refused button")
        self.until(lambda: not self.one("#change .problem").is_displayed())
        self.assertEqual(self.compared(), then)

    def test_a_slot_that_frees_nothing_says_why(self):
        for pattern in ("layers.0.self_attn softmax.y", "layers.*.self_attn linear*.weight"):
            with self.subTest(pattern):
                self.page("gpt", state=f"recompute={quote(pattern)}")
                matched = self.report("graph", "whatif", self.sample("gpt"), "--recompute",
                                      pattern)["matched"]
                first = next(match for match in matched if match["freed_bytes"] == 0)
                count = len([match for match in matched if match["freed_bytes"] == 0])
                who = (f"{first['name']} frees nothing" if count == 1
                       else f"{count} slots free nothing, as {first['name']}")
                self.assertIn(f"{who}: {first['note']}.", self.texts("#change .note"))

    # ---- two graphs ----

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
        total = int(self.one("#change [role=table]").get_attribute("aria-rowcount"))
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

    def test_heads_of_what_was_tried_stand_in_one_line_and_figures_apart(self):
        self.set_width(1280)
        self.page("gpt_12")
        self.until(lambda: self.one("#candidates").get_attribute("data-done"))
        heights, gap = self.script("""
            const range = document.createRange(), rect = (one) => {
              range.selectNodeContents(one);
              return range.getBoundingClientRect();
            };
            const heads = [...document.querySelectorAll(".changes-tried th.right")];
            const [, peak, saved] = document.querySelector("#candidates tr").children;
            return [heads.map((head) => rect(head).height), rect(saved).left - rect(peak).right];""")
        self.assertEqual(len(set(heights)), 1)
        self.assertGreater(gap, 12)

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
        graph = json.loads(pathlib.Path(self.sample("gpt")).read_text())
        reason = graph["saved"][0]["reason"]
        graph["saved"][0]["reason"] = reason + " otherwise"
        file = pathlib.Path(self.sample("another_reason"))
        file.write_text(json.dumps(graph))
        self.page("gpt", "--diff", file)
        before, after = self.texts("#change [role=cell][data-key=what] div")
        self.assertTrue(before.startswith("… ") and reason.endswith(before[2:]), before)
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
