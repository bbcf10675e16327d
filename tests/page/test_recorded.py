"""The page on recorded runs, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.page.conftest import Open, Watched
from tests.page.recorded import write_ranks, write_run
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)
DRAWN = re.compile(r"^M[\d.]+ [\d.]+L")


def test_the_list_leads_to_a_run_whose_finding_comes_first(open_page: Open) -> None:
    page = open_page()
    row = page.locator("tr", has_text="lenet-1")
    expect(row).to_contain_text("NaN")
    row.get_by_role("link").click()
    card = page.locator("[data-fault=sqrt_zero_gradient]")
    for words in (
        "gradient became NaN",
        "head.scale",
        "aten.sqrt",
        "train.py:31",
        "dist = torch.sqrt(d2.sum(1))",
        "step 153, backward pass",
        "infinite slope at 0",
        "rows of its input that are exactly 0: 3",
        "every weight at step 154",
        "torch.sqrt(d2.sum(1) + 1e-12)",
        "the gradient is finite",
        "97 % sure",
    ):
        expect(card).to_contain_text(words)
    assert "token" not in page.url


def test_the_address_holds_what_is_shown(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    page.locator(".finding").get_by_role("link", name="head.scale").click()
    assert urlsplit(page.url).path == "/run/lenet-1/step/153/node/head.scale"
    page.reload()
    expect(page.get_by_role("complementary", name="Node head.scale")).to_contain_text("Distance")
    expect(page.get_by_label("Step shown")).to_have_value("153")
    page.go_back()
    expect(page.get_by_role("complementary")).to_have_count(0)


def test_a_finished_run_has_no_buttons_that_drive(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    expect(page.get_by_text("finished")).to_be_visible()
    expect(page.get_by_role("toolbar", name="Training control")).to_have_count(0)


def test_a_healthy_run_says_so_and_what_is_not_watched(open_page: Open) -> None:
    page = open_page("/run/healthy-2")
    expect(page.get_by_text("Nothing wrong was found")).to_be_visible()
    expect(page.locator(".empty")).to_contain_text("of 24 tensors watched")
    expect(page.locator(".empty")).to_contain_text("the second output of conv")


def test_hits_show_what_was_set_and_what_was_found(open_page: Open) -> None:
    page = open_page("/run/lenet-1?tab=hits")
    first = page.locator("tr.hit").first
    expect(first).to_contain_text("max > 3.5")
    page.get_by_label("Condition").select_option("TO")
    expect(page.locator("tr.hit").first).to_contain_text("gradient")
    expect(page.locator("tr.hit").first).to_contain_text("nan 150")
    page.get_by_label("Part of the name").fill("head.fc")
    expect(page.locator("tr.hit").first).to_contain_text("nan 21504")
    page.locator("tr.hit").first.click()
    expect(page.locator(".advice")).to_contain_text("Likely causes")
    expect(page.get_by_label("Step shown")).to_have_value("153")
    page.get_by_label("Part of the name").fill("no such name")
    expect(page.get_by_text("No hit fits these filters")).to_be_visible()


def test_hits_are_paged_and_keys_walk_through_them(open_page: Open) -> None:
    page = open_page("/run/lenet-1?tab=hits")
    expect(page.get_by_text("1–50 of")).to_be_visible()
    page.get_by_role("button", name="Later").click()
    expect(page.get_by_text("51–100 of")).to_be_visible()
    page.get_by_role("button", name="Earlier").click()
    expect(page.get_by_text("1–50 of")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator("tr.hit.on")).to_have_count(1)
    first = page.url
    page.keyboard.press("n")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("p")
    page.wait_for_url(first)


def test_the_step_drives_every_panel(open_page: Open) -> None:
    page = open_page("/run/lenet-1/node/head.fc?tab=curves")
    inspector = page.get_by_role("complementary")
    expect(inspector).to_contain_text("21504 NaN")
    expect(page.locator(".scrub-now")).to_contain_text("NaN")
    page.get_by_label("Step shown").fill("100")
    page.keyboard.press("Enter")
    expect(inspector).to_contain_text("10752 negative")
    expect(inspector).not_to_contain_text("NaN")
    expect(page.locator(".scrub-now")).not_to_contain_text("NaN")
    expect(page.locator(".chart-now").first).to_contain_text("step 100")
    page.get_by_role("button", name="Latest").click()
    expect(inspector).to_contain_text("21504 NaN")
    page.get_by_role("button", name="Previous step").click()
    expect(page.get_by_label("Step shown")).to_have_value("178")


def test_curves_of_scalars_and_of_any_statistic(open_page: Open) -> None:
    page = open_page("/run/lenet-1/node/head.fc?tab=curves")
    for name in ("loss", "lr", "gradient norm", "scale"):
        expect(page.get_by_role("img", name=f"{name} over steps 0 to 179")).to_be_visible()
    expect(page.get_by_role("img", name="loss over").locator(".bad-mark")).to_have_count(1)
    page.get_by_label("Curve of head.fc.weight").first.click()
    page.get_by_label("Statistic").select_option("std")
    expect(page.get_by_role("img", name="weight head.fc.weight").locator("path.line")).to_have_attribute("d", DRAWN)


def test_modules_are_searched_filtered_and_walked_by_keys(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    tree = page.get_by_role("tree", name="Modules")
    expect(tree.get_by_role("treeitem")).to_have_count(3)
    tree.get_by_role("treeitem").first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("complementary", name="Node conv.0")).to_contain_text("Conv2d")
    page.keyboard.press("/")
    page.keyboard.type("relu")
    expect(page.get_by_role("list", name="Modules found").get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Search modules").fill("")
    page.get_by_label("Kind of tensor").select_option("gradient")
    expect(page.get_by_role("list", name="Modules found").get_by_role("listitem")).to_have_count(3)


def test_a_watchpoint_is_made_changed_rechecked_and_removed(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "lenet-1", steps=12, bad_from=9, watch=())
    with serving(tmp_path) as own:
        page = open_page("/run/lenet-1/step/5/node/head.fc", own)
        page.get_by_role("button", name="Watch", exact=True).click()
        form = page.get_by_role("dialog")
        offered = form.get_by_label("Condition").locator("option").evaluate_all("all => all.map(one => one.value)")
        assert {"TO", "TZ", "TR", "TL", "WI", "WNC", "WCL", "AR", "GV", "GL", "EXPR"} <= set(offered)
        form.get_by_role("button", name="Watch").click()
        expect(form.get_by_role("alert")).to_contain_text("at least one of")
        form.locator("[name=max_gt]").fill("1.5")
        form.locator("[name=on]").fill("output:head.fc")
        expect(form.get_by_text("1 tensor now")).to_be_visible()
        form.get_by_role("button", name="Watch").click()
        expect(form).to_have_count(0)
        point = page.locator(".point", has_text="Tensor too large")
        expect(point).to_contain_text("max > 1.5 · on output:head.fc")
        page.get_by_label("Recheck this step").click()
        expect(page.get_by_text("Step 5 judged again with the watchpoints of now: 1 hit")).to_be_visible()
        expect(page.locator("tr.hit")).to_contain_text("max > 1.5")
        point.get_by_label("Edit").click()
        page.get_by_role("dialog").locator("[name=max_gt]").fill("1000")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(point).to_contain_text("max > 1000")
        page.get_by_label("Recheck this step").click()
        expect(page.get_by_text("judged again with the watchpoints of now: 0 hits")).to_be_visible()
        point.get_by_label("Edit").click()  # one more node, and then the first one no longer
        for on, now in (("output:head.fc, output:conv.0", "2 tensors now"), ("output:conv.0", "1 tensor now")):
            page.get_by_role("dialog").locator("[name=on]").fill(on)
            expect(page.get_by_role("dialog").get_by_text(now)).to_be_visible()
        page.get_by_role("dialog").locator("[name=max_gt]").fill("-1000")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(point).to_contain_text("on output:conv.0")
        page.get_by_label("Recheck this step").click()
        expect(page.get_by_text("judged again with the watchpoints of now: 1 hit")).to_be_visible()
        expect(page.locator("tr.hit")).to_contain_text("conv.0")
        point.get_by_label("Remove").click()
        expect(point).to_have_count(0)
        page.context.close()


def test_every_condition_has_a_form_that_can_be_sent(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "lenet-1", steps=2, bad_from=None, watch=())
    with serving(tmp_path) as own:
        page = open_page("/run/lenet-1", own)
        forms = own.http.get("/api/conditions").json()
        for made, condition in enumerate(forms, start=1):
            page.get_by_label("New watchpoint").click()
            form = page.get_by_role("dialog")
            form.get_by_label("Condition").select_option(condition["code"])
            if condition["code"] == "EXPR":
                form.locator("[name=expression]").fill("max > 3 * median(max, 100)")
            for needed in condition["one_of"][:1]:
                form.locator(f"[name={needed}]").fill("50")
                if needed.startswith("range_percentage"):
                    form.locator("[name=range_start_inclusive]").fill("-1")
                    form.locator("[name=range_end_inclusive]").fill("1")
            form.get_by_role("button", name="Watch").click()
            expect(form).to_have_count(0)
            expect(page.locator(".watchpoints > .scroll > .points").first.locator(".point")).to_have_count(made)
        set_ = own.http.get("/api/runs/lenet-1/watchpoints").json()
        assert [one["condition"] for one in set_ if not one.get("recommended")] == [one["code"] for one in forms]
        page.context.close()


def test_limits_and_the_action_of_a_hit_are_set_through_the_form(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "lenet-1", steps=2, bad_from=None, watch=())
    with serving(tmp_path) as own:
        page = open_page("/run/lenet-1", own)
        for action in ("pause", "log", "dump", "pdb"):
            page.get_by_label("New watchpoint").click()
            form = page.get_by_role("dialog")
            form.get_by_text("Limits, action, name").click()
            form.locator("[name=action]").select_option(action)
            form.locator("[name=after]").fill("10")
            form.locator("[name=every]").fill("2")
            form.locator("[name=at_most]").fill("5")
            form.locator("[name=in_a_row]").fill("3")
            form.locator("[name=name]").fill(f"then {action}")
            form.get_by_role("button", name="Watch").click()
            expect(page.locator(".point", has_text=f"then {action}")).to_be_visible()
        own_ones = [one for one in own.http.get("/api/runs/lenet-1/watchpoints").json() if not one.get("recommended")]
        assert [one["action"] for one in own_ones] == ["pause", "log", "dump", "pdb"]
        limits = {(one["after"], one["every"], one["at_most"], one["in_a_row"]) for one in own_ones}
        assert limits == {(10, 2, 5, 3)}
        page.context.close()


def test_what_the_script_printed_is_shown_with_its_steps(open_page: Open) -> None:
    page = open_page("/run/lenet-1?tab=output")
    expect(page.get_by_text("61 lines")).to_be_visible()
    expect(page.locator(".print.err")).to_contain_text("the learning rate is high")
    page.get_by_label("Search the output").fill("step 17 ")
    line = page.locator(".print")
    expect(line).to_have_count(1)
    line.get_by_role("link").click()
    expect(page.get_by_label("Step shown")).to_have_value("17")


def test_the_header_says_the_step_and_the_epoch(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    expect(page.locator("header.top")).to_contain_text("step 179")
    expect(page.locator("header.top")).to_contain_text("epoch 4")  # of 40 batches each, from 0


def test_a_run_that_was_killed_does_not_say_that_nothing_was_wrong(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "killed", steps=5, bad_from=None, killed=True, watch=())
    with serving(tmp_path) as own:
        page = open_page("/run/killed", own)
        expect(page.get_by_text("Nothing wrong was found so far: it was killed")).to_be_visible()
        expect(page.locator("header.top .pill").first).to_contain_text("killed")
        page.context.close()


def test_ranks_that_do_not_get_on_are_shown_with_what_each_is_in(tmp_path: Path, open_page: Open) -> None:
    write_ranks(tmp_path / "four")
    with serving(tmp_path) as own:
        page = open_page("/run/four?tab=run", own)
        expect(page.get_by_role("alert")).to_contain_text("Rank 3 is gone")
        expect(page.get_by_role("alert")).to_contain_text("No step has ended for")
        rows = page.locator("section[aria-label=Ranks] tbody tr")
        expect(rows).to_have_count(4)
        expect(rows.nth(0)).to_contain_text("torch.autograd.backward")
        expect(rows.nth(0)).to_contain_text("train.py:44")
        expect(rows.nth(3)).to_contain_text("gone")
        rows.nth(1).locator("summary").click()
        expect(rows.nth(1).locator(".calls li")).to_have_count(3)
        steps = page.get_by_role("group", name="Ranks by step").locator("svg")
        expect(steps).to_have_count(4)
        expect(steps.nth(2)).to_have_attribute("aria-label", re.compile("^Rank 2: 12 "))
        steps.nth(2).click(position={"x": 2, "y": 6})
        expect(page).to_have_url(re.compile(r"rank=2"))
        expect(page).to_have_url(re.compile(r"step[=/]0\b"))
        page.context.close()


def test_a_muted_finding_is_folded_away_and_comes_back(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "lenet-1", steps=12, bad_from=9)
    with serving(tmp_path) as own:
        page = open_page("/run/lenet-1", own)
        page.get_by_role("button", name="Mute").click()
        expect(page.get_by_text("1 muted finding")).to_be_visible()
        expect(page.get_by_text("Nothing but what you have muted")).to_be_visible()
        page.get_by_text("1 muted finding").click()
        page.get_by_role("button", name="Unmute").click()
        expect(page.get_by_text("1 muted finding")).to_have_count(0)
        page.context.close()


def test_help_lists_the_keys_and_escape_closes_it(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    expect(page.locator(".finding")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("continue")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_without_the_token_the_page_says_where_to_find_it(served: Served, watched: Watched) -> None:
    page = watched.page()
    page.goto(f"{served.base}/run/lenet-1")
    expect(page.get_by_text("This page needs its token")).to_be_visible()


def test_a_run_that_is_not_there_or_broken_says_what_to_do(tmp_path: Path, open_page: Open) -> None:
    part = tmp_path / "broken" / "rank-0"
    part.mkdir(parents=True)
    (part / "000000.log").write_bytes(b"this is no run")
    with serving(tmp_path) as own:
        page = open_page("/", own)
        expect(page.locator("tr", has_text="broken")).to_contain_text("unreadable")
        page.get_by_role("link", name="broken").click()
        expect(page.get_by_text("This run cannot be shown")).to_be_visible()
        page.goto(f"{own.base}/run/nothing")
        expect(page.get_by_text("This run is not here")).to_be_visible()
        page.get_by_role("button", name="All runs").click()
        expect(page.locator("tr", has_text="broken")).to_be_visible()
        page.context.close()


def test_an_empty_folder_and_a_waiting_server_show_the_line_to_paste(tmp_path: Path, open_page: Open) -> None:
    with serving(tmp_path) as empty:
        page = open_page("/", empty)
        expect(page.get_by_text("tensight run train.py")).to_be_visible()
        page.close()
    with serving(None, mode="serve") as waiting:
        page = open_page("/", waiting)
        expect(page.get_by_text(f"tensight run --server 127.0.0.1:{waiting.port} train.py")).to_be_visible()
        page.context.close()


def test_a_page_whose_server_is_gone_says_so_and_keeps_what_it_has(tmp_path: Path, open_page: Open) -> None:
    write_run(tmp_path / "lenet-1", steps=3, bad_from=2)
    with serving(tmp_path) as own:
        page = open_page("/run/lenet-1", own)
        expect(page.locator(".finding")).to_be_visible()
    expect(page.get_by_text("server gone, trying again")).to_be_visible()
    expect(page.locator(".finding")).to_be_visible()
    page.close()
