"""What each misuse leads to in the default build. A changed row is a change of a promise: review it as such.

Case name -> the line on stderr, as a regular expression in which ADDRESS stands for a pointer. The process then ends by SIGABRT.
None: no misuse, exit 0 and silence.

SPDX-License-Identifier: MIT
"""

ADDRESS = r"0x[0-9a-f]+"
LIBC = r"(free|munmap_chunk)\(\): invalid (pointer|size)"


def double(block):
    return rf"heddle: double free of {ADDRESS} \({block}\) \[HD-E03\]"


def interior(block, verb="free"):
    return rf"heddle: {verb} of {ADDRESS}, an interior pointer \({block}\) \[HD-E01\]"


def never(block=""):
    tail = rf" \({block}\)" if block else ""
    return rf"heddle: free of {ADDRESS}, a pointer that was never handed out{tail} \[HD-E02\]"


def freed(verb, block):
    return rf"heddle: {verb} of {ADDRESS}, a freed block \({block}\) \[HD-E04\]"


TABLE = {
    "double_small": double("64-byte class"),
    "double_tiny": double("16-byte class"),
    "double_zero": double("16-byte class"),
    "double_medium": double("20480-byte class"),
    "double_large": double(r"large, \d+ bytes"),
    "double_huge": double(r"large, \d+ bytes"),
    "double_calloc": double("304-byte class"),
    "double_aligned": double("256-byte class"),
    "double_aligned_large": double(r"large, \d+ bytes"),
    "double_later": double("64-byte class"),
    "double_in_full_page": double("64-byte class"),
    "double_after_reuse": double("64-byte class"),
    "double_other_then_own": double("64-byte class"),
    "double_own_then_other": double("64-byte class"),
    "double_other_then_other": double("64-byte class"),
    "double_one_other_thread": double("64-byte class"),
    "double_large_other_thread": double(r"large, \d+ bytes"),
    "double_medium_other_thread": double("30720-byte class"),
    "double_across_death": double("64-byte class"),
    "double_through_realloc": double("64-byte class"),
    "double_realloc_zero": double("64-byte class"),
    "realloc_freed": freed("realloc", "64-byte class"),
    "usable_freed": freed("usable_size", "64-byte class"),
    "interior_small": interior("64-byte class"),
    "interior_misaligned": interior("64-byte class"),
    "interior_eight": interior("1008-byte class"),
    "interior_medium": interior("20480-byte class"),
    "interior_large": interior(r"large, \d+ bytes"),
    "interior_large_far": interior(r"large, \d+ bytes"),
    "interior_aligned": interior(r"\d+-byte class"),
    "interior_realloc": interior("64-byte class", verb="realloc"),
    "interior_other_thread": interior("64-byte class"),
    "never_page_end": never(),
    "never_virgin": never("32-byte class"),
    "never_free_run": never(),
    # Address space that Heddle reserved and has not used: its own report, or libc's for a pointer outside.
    "never_far": rf"({never()}|{LIBC})",
    "foreign_stack": LIBC,
    "foreign_static": LIBC,
    "foreign_mapped": LIBC,
    "heap_free_after_destroy": double("64-byte class"),
    "heap_free_after_reset": double("64-byte class"),
    "heap_double_free": double("64-byte class"),
    "heap_double_free_large": double(r"large, \d+ bytes"),
    "heap_wrong_realloc": rf"heddle: realloc of {ADDRESS}.* \[HD-E05\]",
    "none": None,
    "libc_block": None,
}

#: Cases that Heddle hands to libc, whose own check ends the process whatever Heddle's policy says.
FOREIGN = {"foreign_stack", "foreign_static", "foreign_mapped"}
#: Either side may speak.
EITHER = {"never_far"}
