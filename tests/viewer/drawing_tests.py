"""What the tape viewer draws: the tape itself, with its colours, and attention with its masks."""

import json
import re
import subprocess

from viewer_page import SOURCE, PageTest, number


class DrawingTest(PageTest):
    # ---- the tape ----

    def test_the_tape_folds_and_draws_each_storage_once(self):
        self.page("gpt")
        folded = len(self.all("#tape .box:not(.mirror)"))
        for path in ("layers", "layers.0", "layers.0.self_attn"):
            self.click(f"#tape [data-key='module:{path}'][data-kind=module]")
            self.until(lambda: self.all(f"#tape [data-key='module:{path}'][data-kind=open]"))
        keys = [element.get_attribute("data-key") for element in self.all("#tape .storage")
                if element.get_attribute("data-key")]
        self.assertGreater(len(keys), 4)
        self.assertEqual(len(keys), len(set(keys)))
        self.assertIn("mask", self.text("#tape"))
        self.click("#tape [data-key='module:layers'][data-kind=open]")
        self.until(lambda: len(self.all("#tape .box:not(.mirror)")) == folded)

    def test_a_tape_above_the_cap_says_how_much_is_left_out(self):
        paths = ["layers", *(f"layers.{i}" for i in range(12)),
                 *(f"layers.{i}.self_attn" for i in range(12))]
        self.page("gpt_12", state="&".join(f"tape={path}" for path in paths))
        self.assertRegex(self.text("#tape [role=status]"), r"^\d+ more rows not drawn")

    def open_attention(self, *options, state=""):
        paths = ("layers", "layers.0", "layers.0.self_attn")
        self.page("gpt", *options, state="&".join([*(f"tape={path}" for path in paths), state]))

    def boxes(self, names=""):
        """Names of the forward pass's boxes of a class, from top to bottom."""
        return self.script("""
            return [...document.querySelectorAll(`#tape .box${arguments[0]}:not(.mirror)`)]
              .map((box) => box.querySelector("text").firstChild.textContent);""", names)

    def test_colours_of_the_tape_are_chosen_and_explained(self):
        for choice, legend in (("kind", "matrix product"), ("dtype", "f32"),
                               ("bytes", "20 % and more"), ("category", "saved")):
            with self.subTest(choice):
                self.open_attention(state=f"colour={choice}")
                self.assertEqual(self.script("return document.getElementById('tape-colour').value"),
                                 choice)
                self.assertIn(legend, self.text("#tape-legend"))
                used, told = self.script("""
                    const names = (selector) => [...new Set([...document.querySelectorAll(selector)]
                      .map((part) => [...part.classList].find((name) => name.startsWith("part-") &&
                        name !== "part-swatch")))].sort();
                    return [names("#tape svg .part"), names("#tape-legend .part")];""")
                self.assertEqual([name for name in used if name != "part-other"], told)
        self.script("""const choice = document.getElementById("tape-colour");
            choice.value = "kind"; choice.dispatchEvent(new Event("change"));""")
        self.until(lambda: "colour=kind" in self.driver.current_url)
        words = self.script("""return Object.fromEntries(
            [...document.querySelectorAll("#tape .box.node:not(.mirror)")].map((box) =>
              [...box.querySelectorAll("text")].map((text) => text.textContent)));""")
        self.assertEqual((words["matmul#1"], words["softmax"], words["masked_fill"]),
                         ("product", "reduction", "choice"))

    def test_every_operation_of_the_library_has_a_kind(self):
        sources = [*(SOURCE / "core").glob("*.cpp"), *(SOURCE / "ops").glob("*.cpp")]
        names = sorted({name for source in sources for name in re.findall(
            r'(?:Node\(|constexpr const char\* name = )"([a-z_0-9]+)"', source.read_text())})
        self.assertGreater(len(names), 60)
        self.open_attention()
        kinds = self.script("return arguments[0].map(modules.tape_colours.kindOf)", names)
        self.assertEqual([name for name, kind in zip(names, kinds) if kind == "other"], [])

    def test_views_are_those_of_the_library(self):
        header = (SOURCE / "tools/graph/internal/view_operations.h").read_text()
        listed = re.search(r"view_operations = \{(.*?)\};", header, re.DOTALL)[1]
        self.open_attention()
        self.assertEqual(self.script("return modules.operations.views"),
                         re.findall(r'"([a-z]+)"', listed))

    def test_the_most_saved_bytes_have_the_deepest_colour(self):
        self.open_attention(state="colour=bytes")
        level = self.script("""
            const key = [...document.querySelectorAll("#tape .box.node")].find((box) =>
              box.textContent.startsWith("softmax"));
            return key.querySelector(".part").classList[1];""")
        summary = self.report("graph", "summary", self.sample("gpt"))["saved_activation_bytes"]
        self.assertTrue(0.05 < 55296 / summary <= 0.2)
        self.assertEqual(level, "part-level-3")

    def test_parameters_that_are_saved_are_drawn_when_asked_for(self):
        self.open_attention()
        before = len(self.all("#tape .storage"))
        self.click("#tape-inputs")
        self.until(lambda: len(self.all("#tape .storage")) > before)
        self.assertIn("shown=inputs", self.driver.current_url)
        self.assertIn("parameter", self.text("#tape-legend"))

    def test_operations_of_the_second_graph_alone_are_drawn(self):
        self.open_attention("--diff", self.sample("gpt_fused"))
        self.assertEqual(self.boxes(".added"), ["+ fused_attention"])
        all_boxes = self.boxes()
        at = all_boxes.index("+ fused_attention")
        self.assertEqual(all_boxes[at - 1:at + 3], ["transpose#3", "+ fused_attention",
                                                    "transpose#4", "matmul#1"])
        self.assertIn("removed", self.attribute("#tape .box.node:not(.mirror) ~ .removed", "class"))
        self.click("#tape .box.added")
        self.until(lambda: "+ added: layers.0.self_attn fused_attention" in self.text("#details"))
        self.page("gpt", "--diff", self.sample("gpt_fused"), state="tape=layers")
        self.assertIn("30 ops + 1 new", self.text("#tape [data-key='module:layers.0']"))

    def test_a_checkpoint_is_drawn_where_its_result_is_made(self):
        self.page("gpt", state="tape=layers&tape=layers.0&checkpoint=layers.0.self_attn")
        self.assertIn("+ 1 new", self.text("#tape [data-key='module:layers.0.self_attn']"))
        self.page("gpt", state="tape=layers&tape=layers.0&tape=layers.0.self_attn&"
                               "checkpoint=layers.0.self_attn")
        boxes = self.boxes()
        self.assertEqual(boxes[boxes.index("+ checkpoint") + 1], "add#1")

    # ---- attention ----

    def test_the_page_of_maps_has_tokens_along_its_axes(self):
        text, run, page = (self.samples / name for name in ("text.txt", "run", "maps.html"))
        text.write_text("the cat sat on the mat, and the dog sat on the cat. " * 20)
        self.run_program("train", "--steps", 1, "--layers", 1, "--dim", 8, "--heads", 2,
                         "--context", 16, "--batch", 1, "--threads", 1, "--text", text,
                         "--out", run)
        self.run_program("maps", "--model", run, "--text", "the cat", "-o", page)
        self.browser.requests()
        self.address = page.as_uri()
        self.driver.get(self.address)
        tokens = list("the␣cat")
        labels = lambda axis: self.texts(f"#{axis} span")
        self.until(lambda: labels("keys") == tokens and labels("queries") == tokens)
        box, large = self.one("#keys span").rect, self.one("#large").rect
        self.assertLess(abs(box["x"] + box["width"] / 2 - large["x"] - large["width"] / 14), 2)
        self.click("#large")  # the cell in the middle
        self.until(lambda: self.texts(".axis .at") == ["␣", "␣"])

    def attention(self, **more):
        """A file of maps of two queries and two keys."""
        file = self.samples / "maps.json"
        heads = [[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]]
        file.write_text(json.dumps({
            "format": "tapehead-attention/1", "tokens": ["a", "b"],
            "maps": [{"module": "layers.0.self_attn", "heads": heads, **more}]}))
        return file

    def test_modules_with_attention_maps_are_listed(self):
        self.page("gpt", "--attention", self.attention())
        self.assertEqual(self.text("#attention h2"), "Attention weights: 1 module, 2 heads")
        self.click("#maps .link")
        self.until(lambda: len(self.all("#details .maps .heads canvas")) == 2)
        self.page("gpt")
        self.assertIn("tapehead maps --text", self.text("#attention"))
        self.page("empty")
        self.assertFalse(self.one("#attention").is_displayed())

    def test_heads_of_the_tape_keep_apart_at_every_width(self):
        for width in (2560, 1280, 1100, 800, 360):
            with self.subTest(width):
                self.set_width(width)
                self.page("gpt")
                heads = self.script("""return [...document.querySelectorAll("#tape text.head")]
                    .map((head) => head.getBoundingClientRect()).map((r) => [r.left, r.right]);""")
                self.assertEqual(len(heads), 3)
                for (_, right), (left, _) in zip(heads, heads[1:]):
                    self.assertGreater(left, right + 6)
        self.set_width(2560)
        self.page("gpt")
        drawn, panel = (self.one(one).rect["width"] for one in ("#tape svg", "#tape"))
        self.assertGreater(drawn, 0.95 * panel)

    def test_what_is_saved_keeps_its_shape_and_its_bytes_on_the_tape(self):
        self.set_width(1280)
        self.open_attention(state="shown=inputs&tape=layers.0.linear1&tape=layers.0.norm1")
        pills = self.script("""return [...document.querySelectorAll(
            "#tape .storage[data-key]:not(.bundle)")].map((pill) =>
            [pill.querySelector("text").textContent, pill.querySelector("title").textContent]);""")
        self.assertGreater(len(pills), 8)
        for shown, whole in pills:
            what, figure = whole.split("  ")
            self.assertTrue(shown.endswith(figure.split(" ")[0]) or shown.endswith(figure), shown)
            if what.startswith("("):
                self.assertEqual(shown.split("  ")[0].replace(", ", ","), what.replace(", ", ","))
            else:
                self.assertTrue(what.endswith(shown.split("  ")[0].lstrip("…")), shown)
                self.assertGreater(len(shown.split("  ")[0]), 4)

    def test_names_of_slots_do_not_run_into_what_is_saved(self):
        self.page("gpt")
        self.assertIn("logits, target, count", self.script(
            "return [...document.querySelectorAll('#tape text.slot')].map(e => e.textContent)"))
        touching = self.script("""
            const boxes = (selector) => [...document.querySelectorAll(selector)]
              .map((one) => one.getBoundingClientRect());
            const pills = boxes("#tape .storage rect");
            return boxes("#tape text.slot").filter((a) => pills.some((b) => a.left < b.right + 3 &&
              b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;""")
        self.assertEqual(touching, 0)

    def test_attention_maps_stand_with_their_module(self):
        self.page("gpt", "--attention", self.attention(), state="select=module:layers.0.self_attn")
        self.assertEqual(len(self.all("#details .maps .heads canvas")), 2)
        self.assertEqual(self.all("#details .mask"), [])
        self.assertLess(self.one("#details .scale-line").rect["height"], 25)  # one line

    def test_the_heads_of_a_module_are_in_sight_when_it_is_asked_for(self):
        self.set_width(1280)
        self.page("gpt", "--attention", self.attention(), state="select=module:layers")
        self.script("document.getElementById('details').scrollTop = 1e6; scrollTo(0, 1e6)")
        self.script("document.querySelector('#maps .link').click()")
        self.until(lambda: self.text("#details h3") == "layers.0.self_attn")
        low, slots, end = self.script("""
            const box = (one) => document.querySelector(one).getBoundingClientRect();
            return [box("#details .heads").bottom, box("#details .savers").top,
              box("#details").bottom];""")
        self.assertLess(low, slots)
        self.assertLess(low, end)

    def test_maps_of_modules_that_the_graph_has_not_are_refused(self):
        file = self.attention()
        file.write_text(file.read_text().replace("layers.0", "layers.7"))
        said = subprocess.run([self.program, "graph", "html", self.sample("gpt"), "--attention",
                               file], capture_output=True, text=True)
        self.assertEqual(said.returncode, 2)
        self.assertIn('no module of the graph is "layers.7.self_attn"; the nearest names are '
                      "layers.0.self_attn", said.stderr)
        then = self.samples / "in_checkpoints.json"  # which show what they do not run again
        self.run_program("graph", "whatif", self.sample("unwatched"), "--checkpoint", "layers.*",
                         "--graph", then)
        self.page("in_checkpoints", "--attention", self.attention())
        self.click("#maps .link")
        self.until(lambda: self.all("#details .heads canvas"))

    def test_a_recorded_mask_is_shown_as_a_grid_with_the_queries_that_see_nothing(self):
        file = self.attention(hidden=[[".x", "xx"]])
        node = self.report("graph", "saved", self.sample("gpt"))["rows"]
        (mask,) = {row["storage"] for row in node if row["slot"] == "mask"}
        for select in ("module:layers.0.self_attn", f"storage:{mask}"):
            with self.subTest(select):
                self.page("gpt", "--attention", file, state=f"select={select}")
                grid = self.one("#details canvas.mask")
                self.assertEqual(grid.get_attribute("aria-label"), "3 of 4 pairs hidden")
                self.assertIn("their output is 0 (1): 1.", self.text("#details .mask-grid"))
                pixels = self.script("""
                    const [{ width, height }] = arguments, { data } = arguments[0]
                      .getContext("2d").getImageData(0, 0, width, height);
                    const at = (i, j) => [...data.slice(4 * ((2 * i + 1) * height / 4 * width +
                      (2 * j + 1) * width / 4)).slice(0, 4)].join();
                    return [at(0, 0), at(0, 1), at(1, 0), at(1, 1)];""", grid)
                self.assertEqual(pixels[1:], [pixels[1]] * 3)
                self.assertNotEqual(pixels[0], pixels[1])

    def test_the_mask_of_fused_attention_is_drawn_from_its_rule(self):
        self.page("gpt_fused")
        graph = json.loads((self.samples / "gpt_fused.json").read_text())
        node = next(node for node in graph["nodes"] if node["operation"] == "fused_attention")
        self.script("location.hash = arguments[0]", f"select=node:{node['id']}")
        grid = self.one("#details canvas.mask")
        self.assertEqual(number(grid.get_attribute("aria-label")), 24 * 23 // 2)

    def test_a_mask_that_no_one_recorded_says_how_to_record_it(self):
        graph = json.loads((self.samples / "gpt.json").read_text())
        node = next(node for node in graph["nodes"] if node["operation"] == "masked_fill")
        self.page("gpt", state=f"select=node:{node['id']}")
        self.assertIn("not what it hides", self.text("#details"))
        self.assertEqual(self.all("#details canvas.mask"), [])
