"""Options: help, verbose, warnings, the five layers, passthrough, statistics at exit.

SPDX-License-Identifier: MIT
"""
import json
import re

import pytest


@pytest.fixture
def show(heddle):
    """Run the program that shows options; returns ({name: value}, stderr)."""

    def run(*names, program="options", options=None, **env):
        done = heddle.run(heddle.program(program), *names, options=options, env=env)
        assert done.code == 0, done.err
        return dict(line.split(": ", 1) for line in done.out.splitlines()), done.err

    return run


def one_line(text):
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_silent_by_default(heddle):
    done = heddle.run("/bin/echo", "hello")
    assert (done.code, done.out, done.err) == (0, "hello\n", "")


def test_help(heddle):
    done = heddle.run("/bin/echo", "still runs", options="help")
    assert done.code == 0 and "still runs" in done.out
    table = done.err + done.out
    for name in ("help", "verbose", "stats", "passthrough", "onerror", "purge-delay", "thp"):
        assert re.search(rf"^\s+{name}\s", table, re.M), f"{name} is not in the table"
    assert "HEDDLE=" in table


def test_verbose(heddle):
    done = heddle.run("/bin/echo", "still runs", options="verbose")
    assert done.out == "still runs\n"
    assert re.search(r"heddle 0\.\d+\.\d+ \(", done.err)
    assert re.search(r"purge-delay\s+\d+", done.err)


def test_unknown_key_warns_once(heddle):
    done = heddle.run("/bin/true", options="no-such-key:3")
    line = one_line(done.err)
    assert done.code == 0 and line.startswith("heddle: ") and "no-such-key" in line


def test_unknown_key_does_not_stop_the_others(show):
    values, err = show("purge-delay", options="no-such-key:3,purge-delay:77")
    assert values["purge-delay"] == "77"
    assert "no-such-key" in one_line(err)


@pytest.mark.parametrize(
    "bad", ["purge-delay:soon", "purge-delay:-1", "purge-delay:99999999999999999999999", "onerror:maybe", "purge-delay:"]
)
def test_bad_value_warns_and_the_default_holds(show, bad):
    name = bad.split(":")[0]
    default, _ = show(name)
    values, err = show(name, options=bad)
    line = one_line(err)
    assert line.startswith("heddle: ") and name in line
    assert values == default


@pytest.mark.parametrize("text", ["", ",", ",,,", " ", "purge-delay:5,", ",purge-delay:5", " purge-delay:5 ", "purge-delay=5"])
def test_odd_lists(show, text):
    values, err = show("purge-delay", options=text)
    assert err == ""
    assert values["purge-delay"] == ("5" if "5" in text else show("purge-delay")[0]["purge-delay"])


def test_very_long_list(show):
    values, err = show("purge-delay", options="purge-delay:1," * 5000 + "purge-delay:9")
    assert values["purge-delay"] == "9" and err == ""


def test_layers(show, tmp_path):
    """Built-in < weak symbol < file < HEDDLE < HEDDLE_KEY < run time."""
    file = tmp_path / "heddle.conf"
    file.write_text("# a comment\npurge-delay:300\n\nonerror:report\n")
    weak = show("purge-delay", "onerror", program="options_weak")[0]
    assert weak == {"purge-delay": "200", "onerror": "ignore"}
    assert show("purge-delay", program="options")[0]["purge-delay"] != "200"
    layers = {"HEDDLE_FILE": str(file)}
    assert show("purge-delay", "onerror", program="options_weak", **layers)[0] == {"purge-delay": "300", "onerror": "report"}
    assert show("purge-delay", program="options_weak", options="purge-delay:400", **layers)[0]["purge-delay"] == "400"
    layers["HEDDLE_PURGE_DELAY"] = "500"
    assert show("purge-delay", program="options_weak", options="purge-delay:400", **layers)[0]["purge-delay"] == "500"
    values, err = show("purge-delay=600", "purge-delay", program="options_weak", options="purge-delay:400", **layers)
    assert values == {"set purge-delay 600": "ok", "purge-delay": "600"} and err == ""


def test_missing_file_is_named(heddle):
    done = heddle.run("/bin/true", env={"HEDDLE_FILE": "/no/such/file"})
    assert done.code == 0 and "/no/such/file" in one_line(done.err)


def test_run_time(show):
    values, err = show("purge-delay=7k", "no-such=1", "purge-delay=x", "passthrough=on", "no-such", "purge-delay")
    assert values == {
        "set purge-delay 7k": "ok",
        "set no-such 1": "unknown",
        "set purge-delay x": "value",
        "set passthrough on": "late",
        "no-such": "none",
        "purge-delay": "7168",
    }
    assert err == ""


@pytest.mark.parametrize("value", ["on", "off"])
def test_passthrough(heddle, value):
    probe = heddle.run(heddle.program("override"), options=f"passthrough:{value}")
    assert probe.code == 0, probe.err
    active, reason = probe.out.strip().split(": ", 1)
    assert active == ("active" if value == "off" else "inactive")
    assert ("passthrough" in reason) == (value == "on")


def test_stats_at_exit(heddle):
    done = heddle.run(heddle.program("options"), "--alloc", "5000000", options="stats")
    assert done.code == 0
    assert re.search(r"4\.[78] MiB\s+in blocks", done.err) or re.search(r"[45]\.\d+ M", done.err), done.err


def test_stats_json_at_exit(heddle):
    done = heddle.run(heddle.program("options"), "--alloc", "5000000", options="stats:json")
    stats = json.loads(done.err)
    assert 5000000 <= stats["live"] < 6000000 and stats["live_count"] >= 1


def test_stats_json(heddle):
    done = heddle.run(heddle.program("options"), "--alloc", "300000", "--stats-json")
    stats = json.loads(done.out)
    assert stats["live"] >= 300000 and stats["large"] >= 300000
    fields = "version live live_count free_in_pages large cached metadata mapped reserved page_count heap_count resident".split()
    assert set(fields) <= set(stats)
    assert all(isinstance(stats[f], int) and stats[f] >= 0 for f in fields)


def test_preload_children(heddle):
    """The preload reaches children, or not, on request."""
    script = "echo ${LD_PRELOAD:-gone}"
    assert heddle.run("/bin/sh", "-c", script).out.strip() == str(heddle.shared)
    outcome = heddle.run("/bin/sh", "-c", "/bin/sh -c 'echo ${LD_PRELOAD:-gone}'", options="preload-children:off")
    assert outcome.out.strip() == "gone", outcome
