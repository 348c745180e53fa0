"""What each misuse leads to, in the default and in the hardened mode. A changed row is a change of a promise: review it as such.

Case name -> (default, hardened), each the exact line on stderr, in which ADDRESS stands for a pointer, or one of the words below. After
a line the process ends by SIGABRT; after one of HD-E12, a fault, by SIGSEGV. Hardened rows hold with hardened-sample:0, those of
cases named sample_* with hardened-sample:1. The table of docs/guide/misuse-reports.md is made here:

    python3 test/misuse/table.py            prints it

SPDX-License-Identifier: MIT
"""
import re

#: No misuse: exit 0 and silence.
FINE = "fine"
#: The mode does not promise to find it; Heddle says nothing, and what the program does then is its own affair.
NOT_FOUND = "not found"
#: Heddle hands it to the C library, whose own check or a fault ends the process, whatever Heddle's policy says.
LIBC = "the C library's own check"
#: Address space that Heddle may or may not have: its own report, or the C library's.
EITHER = "Heddle's report or the C library's"

LIBC_LINE = r"((free|munmap_chunk|realloc)\(\): invalid (pointer|size))?"


def double(block):
    return f"heddle: double free of ADDRESS ({block}) [HD-E03]"


def interior(block, verb="free"):
    return f"heddle: {verb} of ADDRESS, an interior pointer ({block}) [HD-E01]"


def never(verb="free", block=""):
    return f"heddle: {verb} of ADDRESS, a pointer that was never handed out{f' ({block})' if block else ''} [HD-E02]"


def freed(block, verb="free"):
    return f"heddle: {verb} of ADDRESS, a freed block ({block}) [HD-E04]"


def objects(what, verb="free"):
    return f"heddle: {verb} of ADDRESS, memory of {what} [HD-E07]"


def over(block, verb="free"):
    return f"heddle: {verb} of ADDRESS, written past its end ({block}) [HD-E10]"


def written(byte, block):
    return f"heddle: write after free of ADDRESS, at byte {byte} ({block}) [HD-E11]"


def access(where):
    return f"heddle: access to ADDRESS, {where} [HD-E12]"


def sized(said, block):
    return f"heddle: sized free of ADDRESS, said to have {said} ({block}) [HD-E13]"


TABLE = {
    "double_small": (double("64-byte class"), double("80-byte class")),
    "double_tiny": (double("16-byte class"),) * 2,
    "double_zero": (double("16-byte class"),) * 2,
    "double_medium": (double("18432-byte class"),) * 2,
    "double_large": (double("large, 303104 bytes"), double("large, 300000 bytes")),
    "double_huge": (double("large, 20971520 bytes"),) * 2,
    "double_calloc": (double("512-byte class"), double("320-byte class")),
    "double_aligned": (double("256-byte class"),) * 2,
    "double_aligned_large": (double("large, 303104 bytes"), double("large, 300000 bytes")),
    "double_later": (double("64-byte class"), double("80-byte class")),
    "double_in_full_page": (double("64-byte class"), double("80-byte class")),
    "double_after_reuse": (double("64-byte class"), double("80-byte class")),
    "double_other_then_own": (double("64-byte class"), double("80-byte class")),
    "double_own_then_other": (double("64-byte class"), double("80-byte class")),
    "double_other_then_other": (double("64-byte class"), double("80-byte class")),
    "double_one_other_thread": (double("64-byte class"), double("80-byte class")),
    "double_large_other_thread": (double("large, 503808 bytes"), double("large, 500000 bytes")),
    "double_medium_other_thread": (double("30720-byte class"),) * 2,
    "double_across_death": (double("64-byte class"), double("80-byte class")),
    "double_through_realloc": (double("64-byte class"), double("80-byte class")),
    "double_realloc_zero": (double("64-byte class"), double("80-byte class")),
    "realloc_freed": (freed("64-byte class", "realloc"), freed("80-byte class", "realloc")),
    "usable_freed": (freed("64-byte class", "usable_size"), freed("80-byte class", "usable_size")),
    "interior_small": (interior("64-byte class"), interior("80-byte class")),
    "interior_misaligned": (interior("64-byte class"), interior("80-byte class")),
    "interior_eight": (interior("1024-byte class"),) * 2,
    "interior_medium": (interior("18432-byte class"),) * 2,
    "interior_large": (interior("large, 303104 bytes"), interior("large, 300000 bytes")),
    "interior_large_far": (interior("large, 303104 bytes"), interior("large, 300000 bytes")),
    "interior_aligned": (interior("12288-byte class"),) * 2,
    "interior_realloc": (interior("64-byte class", "realloc"), interior("80-byte class", "realloc")),
    "interior_other_thread": (interior("64-byte class"), interior("80-byte class")),
    "never_page_end": (never(), interior("64-byte class")),
    "never_virgin": (never("free", "32-byte class"), never("free", "48-byte class")),
    "never_free_run": (never(), interior("large, 4194304 bytes")),
    "never_far": (EITHER,) * 2,
    "foreign_stack": (LIBC,) * 2,
    "foreign_static": (LIBC,) * 2,
    "foreign_mapped": (LIBC,) * 2,
    "heap_free_after_destroy": (double("64-byte class"),) * 2,
    "heap_double_free": (double("64-byte class"),) * 2,
    "heap_double_free_large": (double("large, 303104 bytes"),) * 2,
    "heap_free_after_reset": (double("64-byte class"),) * 2,
    "heap_wrong_realloc": ("heddle: realloc of ADDRESS, which is no block of the heap it was given with [HD-E05]",) * 2,
    "usable_interior": (interior("64-byte class", "usable_size"), interior("80-byte class", "usable_size")),
    "realloc_far": (never("realloc"),) * 2,
    "realloc_stack": (LIBC,) * 2,
    "foreign_code": (LIBC,) * 2,
    "over_small_1": (NOT_FOUND, over("80-byte class, 60 bytes asked")),
    "over_small_8": (NOT_FOUND, over("80-byte class, 60 bytes asked")),
    "over_small_16": (NOT_FOUND, over("80-byte class, 60 bytes asked")),
    "over_small_4096": (NOT_FOUND, over("80-byte class")),
    "over_full_class_1": (NOT_FOUND, over("64-byte class, 56 bytes asked")),
    "over_full_class_8": (NOT_FOUND, over("64-byte class")),
    "over_medium_1": (NOT_FOUND, over("18432-byte class, 18000 bytes asked")),
    "over_medium_8": (NOT_FOUND, over("18432-byte class, 18000 bytes asked")),
    "over_medium_16": (NOT_FOUND, over("18432-byte class, 18000 bytes asked")),
    "over_medium_4096": (NOT_FOUND, over("18432-byte class")),
    "over_large_1": (NOT_FOUND, access("1 byte behind the end of a block of 300000 bytes")),
    "over_large_8": (NOT_FOUND, access("1 byte behind the end of a block of 300000 bytes")),
    "over_large_16": (NOT_FOUND, access("1 byte behind the end of a block of 300000 bytes")),
    "over_large_4096": (NOT_FOUND, access("1 byte behind the end of a block of 300000 bytes")),
    "over_large_odd_1": (NOT_FOUND, over("large, 300001 bytes")),
    "over_large_odd_16": (NOT_FOUND, access("16 bytes behind the end of a block of 300001 bytes")),
    "over_zero": (NOT_FOUND, over("16-byte class, 0 bytes asked")),
    "over_string_end": (NOT_FOUND, over("32-byte class, 24 bytes asked")),
    "over_calloc": (NOT_FOUND, over("320-byte class, 300 bytes asked")),
    "over_realloc": (NOT_FOUND, over("112-byte class, 100 bytes asked")),
    "over_shrunk": (NOT_FOUND, over("64-byte class, 40 bytes asked")),
    "over_aligned": (NOT_FOUND, over("256-byte class, 200 bytes asked")),
    "over_aligned_large": (NOT_FOUND, over("large, 300000 bytes")),
    "over_strdup": (NOT_FOUND, over("32-byte class, 11 bytes asked")),
    "over_found_by_realloc": (NOT_FOUND, over("80-byte class, 60 bytes asked", "realloc")),
    "over_found_by_usable": (NOT_FOUND, over("80-byte class, 60 bytes asked", "usable_size")),
    "over_found_by_other_thread": (NOT_FOUND, over("80-byte class, 60 bytes asked")),
    "over_not_usable": (FINE,) * 2,
    "under_small": (NOT_FOUND, over("80-byte class")),
    "under_large": (NOT_FOUND,) * 2,
    "under_large_far": (NOT_FOUND, access("4096 bytes before the start of a block of 300000 bytes")),
    "write_freed_small": (NOT_FOUND, written(3, "80-byte class")),
    "write_freed_other_thread": (NOT_FOUND, written(40, "80-byte class")),
    "write_freed_at_exit": (NOT_FOUND, written(59, "80-byte class")),
    "write_freed_collected": (NOT_FOUND, written(0, "80-byte class")),
    "write_freed_medium_start": (NOT_FOUND, written(8, "18432-byte class")),
    "write_freed_medium_inside": (NOT_FOUND,) * 2,
    "write_freed_large": (NOT_FOUND, access("100 bytes into a freed block of 300000 bytes")),
    "write_freed_huge": (NOT_FOUND, access("70000000 bytes into a freed block of 104857600 bytes")),
    "read_freed_small": (NOT_FOUND,) * 2,
    "read_freed_large": (NOT_FOUND, access("299999 bytes into a freed block of 300000 bytes")),
    "sample_over": (NOT_FOUND, access("1 byte behind the end of a block of 48 bytes")),
    "sample_read_freed": (NOT_FOUND, access("10 bytes into a freed block of 48 bytes")),
    "sample_under": (NOT_FOUND, access("4096 bytes before the start of a block of 48 bytes")),
    "sample_double": (double("64-byte class"), double("large, 48 bytes")),
    "sized_free": (NOT_FOUND, sized("size 60", "64-byte class, 50 bytes asked")),
    "sized_free_large": (NOT_FOUND, sized("size 300001", "large, 300000 bytes")),
    "sized_free_class": (NOT_FOUND, sized("size 64", "64-byte class, 50 bytes asked")),
    "sized_free_zero": (NOT_FOUND, sized("size 0", "64-byte class, 50 bytes asked")),
    "sized_free_aligned": (NOT_FOUND, sized("size 256", "256-byte class, 100 bytes asked")),
    "sized_free_alignment": (NOT_FOUND, sized("alignment 1099511627776", "256-byte class, 100 bytes asked")),
    "sized_delete": (NOT_FOUND, sized("size 32", "32-byte class, 24 bytes asked")),
    "sized_delete_array": (NOT_FOUND, sized("size 8", "832-byte class, 800 bytes asked")),
    "sized_delete_aligned": (NOT_FOUND, sized("size 104", "256-byte class, 100 bytes asked")),
    "sized_delete_aligned_array": (NOT_FOUND, sized("size 10", "256-byte class, 100 bytes asked")),
    "sized_after_realloc": (NOT_FOUND, sized("size 50", "208-byte class, 200 bytes asked")),
    "sized_interior": (interior("64-byte class"), interior("80-byte class")),
    "sized_double": (double("64-byte class"), double("80-byte class")),
    "sized_right": (FINE,) * 2,
    "mismatch_new_free": (NOT_FOUND,) * 2,
    "memalign_wrong": (FINE,) * 2,
    "free_arena": (objects("an arena"),) * 2,
    "realloc_arena": (objects("an arena", "realloc"),) * 2,
    "sized_arena": (objects("an arena"),) * 2,
    "free_pool": (objects("a pool 'items'"),) * 2,
    "usable_pool": (objects("a pool 'items'", "usable_size"),) * 2,
    "heap_over": (NOT_FOUND,) * 2,
    "heap_usable_after_destroy": (freed("64-byte class", "usable_size"),) * 2,
    "heap_large_after_destroy": (double("large, 303104 bytes"),) * 2,
    "heap_one_user_double": (double("64-byte class"),) * 2,
    "none": (FINE,) * 2,
    "libc_block": (FINE,) * 2,
}


def is_report(cell):
    return cell.startswith("heddle: ")


def pattern(cell):
    """The cell's line as a regular expression."""
    if is_report(cell):
        return re.escape(cell).replace("ADDRESS", "0x[0-9a-f]+")
    return {LIBC: LIBC_LINE, EITHER: f"({pattern(never())}|{LIBC_LINE})"}[cell]


def markdown():
    def show(cell):
        return f"`{cell.removeprefix('heddle: ').replace('ADDRESS', '0x…')}`" if is_report(cell) else cell

    yield "| case | default | hardened |"
    yield "|---|---|---|"
    for case, (default, hardened) in TABLE.items():
        yield f"| {case} | {show(default)} | {'the same' if hardened == default else show(hardened)} |"


if __name__ == "__main__":
    print("\n".join(markdown()))
