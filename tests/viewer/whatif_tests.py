"""What-if questions on the page of the tape viewer."""

import json
import pathlib
import subprocess
from urllib.parse import quote

from viewer_page import SOURCE, PageTest, number  # which looks for a browser first

from selenium.webdriver.common.keys import Keys


def figures_of(answer):
    """What `graph whatif --json` tells of each figure, now and then, as compared() gives it."""
    return {key: (told["now"], told["then"]) for key, told in answer.items()
            if isinstance(told, dict)}


class WhatIfTest(PageTest):
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
        self.until(lambda: self.attribute("#candidates", "data-done"))
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
        self.until(lambda: self.attribute("#candidates", "data-done"))
        answer = self.report("graph", "whatif", self.sample("gpt_12"), "--checkpoint", "layers.*")
        peak, flops = answer["peak_bytes"], answer["flops"]
        self.assertIn("the most is kept by layers.*.self_attn softmax.y × 12, 663,552 bytes "
                      "(648.00 KiB), 26.5 %, for dx = y * (g - sum(g * y)). Of what was tried, "
                      f"checkpoint layers.* brings the peak down the most, from {peak['now']:,} to "
                      f"{peak['then']:,}, for {flops['difference']:,} flops more.",
                      self.text("#in-short"))

    def test_where_no_change_lowers_the_peak_the_best_saves_the_fewest_bytes(self):
        text, out = self.samples / "text.txt", self.samples / "small_step"
        text.write_text("the tape records what it saved. " * 60 + "\n")
        self.run_program("train", "--text", text, "--out", out, "--steps", "2", "--context", "2",
                         "--layers", "1", "--heads", "2", "--dim", "8", "--batch", "1")
        (out / "graph.json").rename(self.sample("small_step"))
        self.page("small_step")
        self.until(lambda: self.attribute("#candidates", "data-done"))
        answer = self.report("graph", "whatif", self.sample("small_step"), "--checkpoint", "layers")
        saved, peak = answer["saved_activation_bytes"], answer["peak_bytes"]
        flops = answer["flops"]["difference"]
        self.assertGreater(peak["difference"], 0)
        self.assertIn("checkpoint layers brings the saved bytes down the most, from "
                      f"{saved['now']:,} to {saved['then']:,}, for {flops:,} flops more and a peak "
                      f"higher by {peak['difference']:,}.", self.text("#in-short"))
        rows = [[number(cell.split()[0]) for cell in row] for row in self.script("""
            return [...document.querySelectorAll("#candidates tr")].map((row) =>
              [...row.querySelectorAll("td.number")].slice(0, 2).map((cell) => cell.innerText));""")]
        self.assertTrue(all(peak["now"] <= then for then, _ in rows), rows)
        self.assertEqual([saved for _, saved in rows], sorted(saved for _, saved in rows))

    def test_the_answer_in_short_names_all_that_keep_as_much(self):
        def keep_as_much(graph):
            storages = {value["id"]: value["storage"] for value in graph["values"]}
            for slot in graph["saved"]:
                node = graph["nodes"][slot["node"]]
                if node["operation"] == "gelu" or node["module"].endswith("linear2"):
                    graph["storages"][storages[slot["value"]]]["bytes"] = 55296

        self.changed_sample("alike", keep_as_much)
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
                self.assertEqual(self.attribute("#change-pattern", "data-told"), "true")
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

    def test_heads_of_what_was_tried_stand_in_one_line_and_figures_apart(self):
        self.set_width(1280)
        self.page("gpt_12")
        self.until(lambda: self.attribute("#candidates", "data-done"))
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
