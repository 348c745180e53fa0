"""What the benchmark reports of figures made up for the purpose."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from heddle_bench import cli, draw, page, tables
from heddle_bench.figures import Results, Run
from heddle_bench.measure import CONTROL, Allocator, BenchError, Sample, find_allocators, with_control
from heddle_bench.suite import Row

ALLOCATORS = [Allocator(name, "", "1") for name in ("heddle", "system")]
PER_THREAD_S = {"heddle": {1: 0.010, 2: 0.011, 8: 0.040}, "system": {1: 0.020, 2: 0.050}}


def results_of(threads):
    rows = [Row(f"larson t{n}", "larson", n, ("larson",)) for n in threads]
    results = Results(rows, ALLOCATORS, "system", "heddle")
    for row in rows:
        for allocator in ALLOCATORS:
            wall = PER_THREAD_S[allocator.name].get(row.threads)
            if wall:
                results.add(row, allocator, Sample(wall * row.threads, wall, 1000 * row.threads, 10))
    return results


def shown(table):
    console = Console(width=200, color_system=None)
    with console.capture() as text:
        console.print(table)
    return text.get()


def test_scaling_is_told_against_one_thread():
    lines = [line for line in shown(tables.scaling_table(results_of((1, 2, 8)))).splitlines() if "larson" in line]
    cells = [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines]
    assert cells == [["larson", "heddle", "10.0 ms", "1.10", "4.00"], ["larson", "system", "20.0 ms", "2.50", "-"]]


def test_scaling_without_one_thread_has_no_ratio():
    line = next(line for line in shown(tables.scaling_table(results_of((2, 8)))).splitlines() if "heddle" in line)
    assert [cell.strip() for cell in line.strip("│ ").split("│")] == ["larson", "heddle", "-", "-"]


def test_a_label_lies_on_nothing_else():
    """Not on another spot, not on another label, and not outside."""
    spots = [("alone", 100, 50), ("first", 100, 200), ("second", 150, 205), ("edge", 980, 300), ("upper", 400, 100), ("lower", 400, 112)]
    placed = draw.label_spots(spots, (0, 0, 1000, 400))
    assert [placed[name][2] for name, _, _ in spots] == ["start", "end", "start", "end", "start", "end"]
    assert placed["alone"][:2] == (113, 54) and placed["lower"][:2] == (387, 116)


def test_an_earlier_run_counts_each_row_once(tmp_path):
    """The scaling runs have rows of the same names, run at another scale."""
    run = Run(results_of((1, 2)), results_of((1, 2, 8)), Results([], ALLOCATORS, "system", "heddle"), rounds=1)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run.to_json()))
    again = cli.earlier(path)
    assert [row.name for row in again.results.rows] == ["larson t1", "larson t2"]
    assert [row.name for row in again.scaling.rows] == ["larson t1", "larson t2", "larson t8"]
    assert again.results.geomean("heddle", "cpu") == run.results.geomean("heddle", "cpu")
    assert again.results.geomean("heddle", "cpu")[1] == 2


def test_means_by_the_minimum_and_by_the_median():
    """One lucky round makes the minimum, two of three make the median."""
    row = Row("larson t1", "larson", 1, ("larson",))
    results = Results([row], ALLOCATORS, "system", "heddle")
    for allocator, rounds in zip(ALLOCATORS, ((0.030, 0.040, 0.020), (0.100, 0.010, 0.100)), strict=True):
        for n, cpu in enumerate(rounds):
            results.add(row, allocator, Sample(cpu, cpu, 1000 * (n + 1) if allocator.name == "heddle" else 1000, 10))
    heddle = next(m for m in tables.geomean_rows(results) if m.name == "heddle")
    assert [round(v, 3) for v in (heddle.cpu, heddle.rss, heddle.median_cpu, heddle.median_rss)] == [2.0, 1.0, 0.3, 2.0]
    assert results.to_json()["geomeans"]["heddle"]["median_cpu"] == heddle.median_cpu
    line = next(line for line in shown(tables.geomean_table(results)).splitlines() if "heddle" in line)
    assert [cell.strip() for cell in line.strip("│ ").split("│")][2:] == ["2.00", "1", "1.00", "1", "0.30", "2.00"]
    assert "| **heddle** | 1 | 2.00 | **1.00** | **0.30** | 2.00 |" in tables.markdown(results, 3, "make bench")


def test_a_copy_is_no_peer_and_tells_of_chance():
    row = Row("larson t1", "larson", 1, ("larson",))
    three = [*ALLOCATORS, Allocator(CONTROL, "", "a copy")]
    results = Results([row], three, "system", "heddle")
    for allocator, cpu, kib in zip(three, (0.040, 0.050, 0.030), (1000, 3000, 1500), strict=True):
        results.add(row, allocator, Sample(cpu, cpu, kib, 10))
    assert results.best_peer("larson t1", "cpu") == "system"
    line = next(line for line in shown(tables.summary_table(results)).splitlines() if "larson" in line)
    cells = [cell.strip() for cell in line.strip("│ ").split("│")]
    assert cells[3:5] == ["0.80", "system"]
    assert cells[-2:] == ["0.75", "1.50"]
    assert len(tables.summary_heads(results_of((1,)))) == len(cells) - 2
    section = tables.markdown(results, 3, "make bench").splitlines()
    assert not any(line.startswith(f"| {CONTROL}") for line in section)
    assert "| **heddle** | 1 | **0.80** | **0.33** | **0.80** | **0.33** |" in section
    assert "A copy of heddle in the same rounds: 0.60, 0.50, 0.60, 0.50." in section
    plot = page.pictures(results, Results([], three, "system", "heddle"), [])["bench-means.svg"]
    assert (">heddle<" in plot, f">{CONTROL}<" in plot) == (True, False)


def test_a_copy_runs_from_a_path_of_the_same_length(tmp_path):
    library = tmp_path / "libheddle.so"
    library.write_bytes(b"its code")
    heddle, control, system = with_control([Allocator("heddle", str(library), "this tree"), ALLOCATORS[1]], tmp_path)
    assert (heddle.name, control.name, system.name) == ("heddle", CONTROL, "system")
    assert len(heddle.path) == len(control.path)
    assert [Path(a.path).read_bytes() for a in (heddle, control)] == [b"its code"] * 2
    with pytest.raises(BenchError, match="not among the allocators"):
        with_control(ALLOCATORS[1:], tmp_path)


def test_the_copy_is_listed_where_it_is_asked_for(tmp_path):
    library, peers = tmp_path / "libheddle.so", tmp_path / "peers.json"
    library.write_bytes(b"its code")
    peers.write_text(json.dumps({"peers": []}))
    arguments = ["--list", "--only", "empty t1", "--heddle", str(library), "--peers", str(peers)]
    for more, listed in (([], False), (["--control"], True)):
        got = CliRunner().invoke(cli.main, arguments + more)
        assert got.exit_code == 0, got.output
        assert (f"{CONTROL}  a copy of heddle" in got.output.splitlines()) == listed


class RecordingRunner:
    """Says which allocator ran when."""

    def __init__(self):
        self.seen = []

    def run(self, row, allocator):
        self.seen.append((row.name, allocator.name))
        return Sample(1.0, 1.0, 1000, 10)


def test_nobody_always_runs_behind_the_same_allocator():
    allocators = [Allocator(name, "", "1") for name in "abcd"]
    rows = [Row(f"row {n}", "row", 1, ("row",)) for n in range(6)]
    runner = RecordingRunner()
    results = Results(rows, allocators, "a", "b")
    cli.Rounds(runner, results, rows, allocators, Console(quiet=True)).play(5, 0)
    assert len(runner.seen) == 4 * 6 * 5
    assert all(len(results.samples[row.name][a.name]) == 5 for row in rows for a in allocators)
    names = [name for _, name in runner.seen]
    for name in "abcd":
        before = [names[at - 1] for at in range(1, len(names)) if names[at] == name and runner.seen[at][0] == runner.seen[at - 1][0]]
        most = max(before.count(other) for other in "abcd")
        assert most < len(before) * 2 / 3


def test_a_name_that_means_no_row_is_an_error():
    assert [r.name for r in cli.choose_rows(False, 1.0, "empty t1,larson t*", None, False)][:2] == ["empty t1", "larson t1"]
    with pytest.raises(BenchError, match="no row is called pairs/pair-64;"):
        cli.choose_rows(False, 1.0, "empty t1,pairs/pair-64", None, False)
    with pytest.raises(BenchError, match="no row is called larsen"):
        cli.choose_rows(False, 1.0, None, "pairs,larsen", False)


def test_a_folder_is_no_list_of_peers(tmp_path):
    with pytest.raises(BenchError, match=f"{tmp_path}: .*directory"):
        find_allocators("none", str(tmp_path))


def test_shapes_by_number():
    rows = cli.choose_shapes("3-5", 0.5)
    assert [row.name for row in rows] == ["shape 3", "shape 4", "shape 5"]
    (row,) = cli.choose_shapes("long:7", 0.5)
    assert (row.name, row.family, row.command) == ("longshape 7", "longshape", ("{bin}/longshape", "-s", "7", "-n", "0.5"))
    for wrong in ("", "x", "5-3", "long:", "long:x", "short:1"):
        with pytest.raises(BenchError):
            cli.choose_shapes(wrong, 1)
