import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.errors import HeddleError
from heddle.libraries import preload_value
from heddle.options import merge_settings, parse_setting, with_settings

keys = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)
values = st.from_regex(r"[A-Za-z0-9._/%-]{1,12}", fullmatch=True)


@given(keys, values, st.sampled_from("=:"))
def test_settings_are_split_at_either_sign(key, value, sign):
    assert parse_setting(f"{key}{sign}{value}") == (key, value)


@given(st.text(max_size=20))
def test_any_text_gives_a_setting_or_a_clear_error(text):
    try:
        key, value = parse_setting(text)
    except HeddleError as error:
        assert error.exit_code == 2 and error.message.startswith("--set ")
    else:
        assert "," not in key + value and key


@given(st.lists(st.tuples(keys, values), max_size=8))
def test_the_last_setting_of_a_key_wins(settings):
    merged = merge_settings("", settings)
    parsed = dict(item.split(":", 1) for item in merged.split(",") if item)
    assert parsed == dict(settings)


def test_merging_keeps_what_the_user_had():
    assert merge_settings("verbose,purge-delay:10", [("purge-delay", "5"), ("help", "")]) == \
        "verbose,purge-delay:5,help"


@pytest.mark.parametrize("text", ["", "=1", "KEY=1", "a b=1", "key=", "key=a,b", "key=a b", "-x=1"])
def test_wrong_settings(text):
    with pytest.raises(HeddleError):
        parse_setting(text)


def test_the_environment_is_copied_and_loses_the_tools_own_variable():
    before = {"HEDDLE_LIBRARY": "/x", "HEDDLE": "thp:auto"}
    assert with_settings(before, [("stats", "on")]) == {"HEDDLE": "thp:auto,stats:on"}
    assert with_settings(before, []) == {"HEDDLE": "thp:auto"}
    assert before["HEDDLE_LIBRARY"] == "/x"


def test_preload_keeps_the_users_libraries_behind_ours():
    assert preload_value("/a.so", {"LD_PRELOAD": "/b.so /c.so:/a.so"}, "/shim.so") == "/shim.so:/a.so:/b.so:/c.so"
    assert preload_value(None, {}) == ""
