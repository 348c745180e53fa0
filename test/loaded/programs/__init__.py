"""The programs, one file a kind; the order is that of the table.

SPDX-License-Identifier: MIT
"""
from programs import browser, compiler, documents, interpreters, nginx, node, postgres, python, redis, repository, shell, sqlite

MODULES = (redis, postgres, nginx, python, repository, compiler, sqlite, interpreters, shell, documents, node, browser)
PROGRAMS = {program.name: program for module in MODULES for program in module.PROGRAMS}
