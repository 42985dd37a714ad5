"""The figures at the top of the tape viewer, and the letters that stand for sizes."""

import json
import pathlib
import re

from viewer_page import PageTest, number  # which looks for a browser first

from selenium.webdriver.common.keys import Keys


class FiguresTest(PageTest):
    def test_figures_are_those_of_the_summary(self):
        for name in ("attention", "encoder", "gpt_12", "gpt_fused"):
            with self.subTest(name):
                self.page(name)
                summary = self.report("graph", "summary", self.sample(name))
                for key in ("saved_activation_bytes", "peak_bytes", "parameter_bytes",
                            "gradient_bytes", "optimizer_state_bytes", "operations", "flops"):
                    self.assertEqual(self.figure(key), summary[key], key)
                self.assertIn(f"at step {summary['peak_step']:,},", self.text("#peak-link"))
                donatable = re.findall(r"([\d,]+) donatable input", self.text("#figures"))
                self.assertEqual(donatable, [f"{summary['donatable_inputs']:,}"]
                                 if summary["donatable_inputs"] > 0 else [])

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

    def test_sums_that_differ_say_what_they_count(self):
        self.page("gpt", state="select=step:9")
        summary = self.report("graph", "summary", self.sample("gpt"))
        activations = summary["saved_activation_bytes"]
        anyway = summary["saved_bytes"] - activations
        self.assertGreater(anyway, 0)
        self.assertTrue(self.text("#saved-sum").endswith(
            f", of which {activations:,} of activations and {anyway:,} of parameters and inputs "
            "that exist anyway"), self.text("#saved-sum"))
        self.assertTrue(self.text("#timeline-legend").startswith("at step 9:"))
        self.click("[data-filter=activations]")
        self.until(lambda: "anyway" not in self.text("#saved-sum"))
        self.assertEqual(number(self.text("#saved-sum").split(":")[1]), activations)

    def test_slots_of_alike_modules_open_as_a_sum_with_each_of_them(self):
        self.page("gpt_12", "--sizes", "B=8", "T=24", "h=3")
        label = "layers.*.self_attn softmax.y"
        for place in ("#in-short", "#savers"):
            with self.subTest(place):
                self.script("""[...document.querySelectorAll(arguments[0])].find((link) =>
                    link.textContent === arguments[1]).click()""", f"{place} .link", label)
                self.until(lambda: self.text("#details h3") == f"{label} × 12")
                self.assertIn(f"{12 * 55296:,} (648.00 KiB)", self.text("#details .facts"))
                self.assertEqual(self.attribute("#alike", "aria-rowcount"), "12")
                self.assertEqual(self.column("alike", "savers"),
                                 [f"layers.{i}.self_attn softmax.y" for i in range(12)])
                self.press(Keys.ESCAPE)
                self.until(lambda: not self.all("#alike"))

    def test_a_module_s_name_that_does_not_fit_ends_in_an_ellipsis(self):
        graph = pathlib.Path(self.sample("gpt")).read_text()
        name = "position_embedding_of_every_token"
        pathlib.Path(self.sample("long_module")).write_text(
            graph.replace('"token_embedding"', f'"{name}"'))
        self.page("long_module")
        fits, overflow = self.script("""
            const name = [...document.querySelectorAll("#modules .name > span")]
              .find(({ textContent }) => textContent === arguments[0]);
            return [name.getBoundingClientRect().right <=
              name.closest("[role=cell]").getBoundingClientRect().right,
              getComputedStyle(name).textOverflow];""", name)
        self.assertEqual((fits, overflow), (True, "ellipsis"))

    def test_without_a_ledger_the_page_says_so(self):
        self.page("unwatched")
        summary = self.report("graph", "summary", self.sample("unwatched"))
        self.assertEqual(self.figure("saved_activation_bytes"), summary["saved_activation_bytes"])
        self.assertIn("unknown", self.text("[data-figure=peak_bytes]"))
        self.assertIn("No ledger watched", self.text("#timeline"))
        self.assertNotIn("Workspace", self.text("#timeline"))

    def test_gradients_that_no_ledger_saw_are_unknown_not_zero(self):
        graph = json.loads(pathlib.Path(self.sample("unwatched")).read_text())
        for storage in graph["storages"]:
            if storage["category"] in ("gradient", "optimizer_state"):
                storage["category"] = "transient"
        pathlib.Path(self.sample("recorded")).write_text(json.dumps(graph))
        self.page("recorded")
        for key in ("peak_bytes", "gradient_bytes", "optimizer_state_bytes"):
            self.assertIn("unknownno ledger watched; take ledger.graph()",
                          self.text(f"[data-figure={key}]"))

    def test_a_letter_for_a_size_that_no_dim_has_is_told(self):
        self.page("gpt", state="sizes=T=24+B=77777")
        self.assertEqual(self.text("#sizes-problem"), "B stands nowhere: no dim is 77,777")
        self.run_program("graph", "html", self.sample("gpt"), "--sizes", "B=77777", codes=(2,))

    def test_letters_stand_for_sizes(self):
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        self.assertIn("4*B*T^2*h bytes each", self.text("#savers"))
        self.assertIn("(B, h, T, T)", self.text("#saved"))
        self.assertNotIn("B", self.text("[data-figure=operations]"))
        self.check_formulas({"B": 8, "T": 24, "h": 3},
                            "saved_activation_bytes", "peak_bytes", "parameter_bytes",
                            "gradient_bytes", "optimizer_state_bytes", "flops")
        self.assertEqual(self.text("[data-figure=flops] .formula"),
                         "= 32*B*T^2*h + 7176*B*T")

    def test_shapes_in_letters_keep_the_category_and_formulas_stand_apart(self):
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        self.assertIn("(B, h, T, T) · saved", self.texts("#saved [data-key=shape] .second"))
        self.assertTrue(all(row.split("\n")[-1].endswith(" bytes each") or "\n" not in row
                            for row in self.texts("#savers td.why")))
        self.assertIn("dx = y * (g - sum(g * y))\n4*B*T^2*h bytes each",
                      self.texts("#savers td.why"))
        for formula in self.texts(".formula"):
            self.assertNotRegex(formula, r"\d,\d{3}")

    def test_who_keeps_it_leads_to_all_that_keep_the_same_memory(self):
        self.page("gpt")
        self.click("#savers .link")
        self.until(lambda: "softmax.y × 2" in self.text("#details h3"))
        self.assertIn("kept by, toolayers.*.self_attn matmul#2.a", self.text("#details .facts"))

    def check_formulas(self, sizes, *keys):
        for key in keys:
            formula = self.text(f"[data-figure={key}] .formula").lstrip("= ")
            value = eval(formula.replace(",", "").replace("^", "**"), dict(sizes))
            self.assertEqual(value, self.figure(key), formula)

    def test_the_sum_of_the_saved_table_is_in_letters_of_the_rows_that_it_shows(self):
        sizes = {"B": 8, "T": 24, "h": 3}
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        formulas = []
        for query in ("", "softmax\\.y", "nothing is like that"):
            self.script("""const box = document.getElementById("search");
                box.value = arguments[0];
                box.dispatchEvent(new Event("input"));""", query)
            formulas += [text.lstrip("= ") for text in self.texts("#saved-sum .formula")]
            if query != "nothing is like that":
                self.assertEqual(eval(formulas[-1].replace("^", "**"), dict(sizes)),
                                 number(self.text("#saved-sum").split(":")[1]))
        self.assertEqual(formulas[1:], ["8*B*T^2*h"])  # 4 bytes in each of two layers
        self.page("gpt")
        self.assertEqual(self.all("#saved-sum .formula"), [])

    def test_terms_stand_by_their_degree_and_the_constant_last(self):
        self.page("gpt", "--sizes", "B=8", "T=24", "h=3")
        for formula in self.texts("#figures .formula"):
            degrees = [sum(int(power or 1) for power in re.findall(r"[BTh](?:\^(\d))?", term))
                       for term in formula.lstrip("= ").split(" + ")]
            self.assertEqual(degrees, sorted(degrees, reverse=True), formula)

    def test_flops_of_fused_attention_have_the_same_letters(self):
        self.page("gpt_fused", "--sizes", "B=8", "T=24", "h=3")
        self.check_formulas({"B": 8, "T": 24, "h": 3}, "flops")
        self.assertIn("B*T^2*h", self.text("[data-figure=flops] .formula"))

    def test_what_letters_do_not_tell_has_no_formula(self):
        graph = json.loads(pathlib.Path(self.sample("gpt")).read_text())
        next(one for one in graph["storages"] if one["category"] == "gradient")["bytes"] += 4
        pathlib.Path(self.sample("odd_gradient")).write_text(json.dumps(graph))
        self.page("odd_gradient", "--sizes", "B=8", "T=24", "h=3")
        self.assertEqual(self.all("[data-figure=gradient_bytes] .formula"), [])
        self.assertEqual(len(self.all("[data-figure=optimizer_state_bytes] .formula")), 1)

    def test_a_size_that_two_letters_share_stays_a_number(self):
        self.page("gpt", "--sizes", "B=8", "T=24", "d=24", "h=3")
        self.assertIn("share stay numbers: 24 (T, d).", self.text("#letters-note"))
        self.assertIn("(B, h, 24, 24)", self.text("#saved"))
        self.check_formulas({"B": 8, "h": 3}, "saved_activation_bytes", "peak_bytes", "flops")
        self.assertTrue(self.text("[data-figure=saved_activation_bytes]")
                        .endswith(" at these sizes"))

    def test_a_size_that_is_two_things_has_no_letter(self):
        # 4 sequences, and 4 features for each of 3 heads.
        self.page("encoder", "--sizes", "B=4", "T=32", "h=3")
        self.assertIn("B is left out: 4 is a part into which a dim is split, as heads are and a "
                      "dim of what the model reads.", self.text("#letters-note"))
        self.assertIn("(4, h, T, T)", self.text("#saved"))
        self.assertNotIn("B", "".join(self.texts(".formula")))
        self.page("gpt_square", "--sizes", "B=8", "T=12")  # tokens are looked up, not an input
        self.assertRegex(self.text("#letters-note"), "T is left out: 12 is .*a dim of a parameter")
        self.assertIn("(B, 3, 12, 12)", self.text("#saved"))
        self.page("encoder_norm_first", "--sizes", "B=16", "T=16")  # of one input
        self.assertIn("16 (B, T)", self.text("#letters-note"))
        self.page("encoder_norm_first", "--sizes", "B=16")
        self.assertIn("B is left out: 16 is twice a dim of what the model reads",
                      self.text("#letters-note"))

    def test_figures_in_columns_have_digits_of_one_width(self):
        self.page("gpt")
        self.assertEqual(self.script("return [...document.querySelectorAll('td.number, .value')]"
                                     ".filter((cell) => getComputedStyle(cell).fontVariantNumeric"
                                     " !== 'tabular-nums').length"), 0)

    def test_letters_that_are_none_or_are_given_twice_are_named(self):
        self.page("gpt")
        self.one("#sizes").send_keys("B = 8 Q T=0 h=3 h=4 2x=1", Keys.ENTER)
        self.until(lambda: self.text("#sizes-problem") != "")
        self.assertEqual(self.text("#sizes-problem"),
                         '"Q" is no LETTER=SIZE; T is 0; a size is at least 1; '
                         'h is given twice; 3 is taken; "2x=1" is no LETTER=SIZE')
        self.assertIn("(B, h, 24, 24)", self.text("#saved"))
        self.one("#sizes").clear()
        self.one("#sizes").send_keys("B=8", Keys.ENTER)
        self.until(lambda: self.text("#sizes-problem") == "")

    def test_no_size_is_written_as_a_multiple_a_quotient_or_a_power_of_letters(self):
        self.page("gpt", state="sizes=B=2+T=144+q=6")  # 24 = T/q, 12 = B*q
        self.assertEqual(self.all(".formula"), [])
        self.assertNotIn("share", self.text("#letters-note"))
        self.assertNotRegex("".join(cell.text for cell in self.all("#saved [data-key=shape]")),
                            r"\*|/|\|")

    def test_an_empty_tape_says_so(self):
        self.page("empty")
        self.assertEqual(self.figure("saved_activation_bytes"), 0)
        self.assertIn("Nothing is saved.", self.text("#savers"))
        self.assertIn("The tape is empty", self.text("#tape"))
        self.until(lambda: "Nothing of what was tried" in self.text("#candidates"))
